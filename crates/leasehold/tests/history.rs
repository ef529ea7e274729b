//! What many processes did under one lock while they, their connections and their server were
//! mistreated: held intervals never overlap, fences grow in the order of time, and increments that
//! fences guard are never lost.

#![cfg(all(feature = "redis", unix))]

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_testing::{Process, RedisServer};

const MS: Duration = Duration::from_millis(1);
const WORKERS: usize = 4;
const ROUNDS: usize = 16;

#[derive(Debug)]
struct Turn {
    began: u128,
    ended: u128,
}

#[test]
fn under_faults_nobody_overlaps_fences_grow_and_nothing_is_lost() {
    let server = RedisServer::start();
    let records = std::env::temp_dir().join(format!("leasehold-history-{}", server.pid()));
    std::fs::create_dir_all(&records).unwrap();
    let mut started = 0;
    let mut start = || {
        started += 1;
        let record = records.join(started.to_string());
        let record = record.to_str().unwrap();
        Process::start_example("worker", [&*server.url(), "order", "1000", record], &[])
    };
    let mut workers: Vec<Process> = (0..WORKERS).map(|_| start()).collect();
    let mut killed: i64 = 0;
    for round in 0..ROUNDS {
        std::thread::sleep(250 * MS);
        let victim = round % WORKERS;
        match round % 5 {
            0 => drop(server.run::<i64>(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])),
            1 => {
                // Longer than its TTL.
                workers[victim].signal("STOP");
                std::thread::sleep(1_300 * MS);
                workers[victim].signal("CONT");
            }
            2 => drop(server.run::<i64>(&["CLIENT", "KILL", "TYPE", "pubsub"])),
            3 => {
                workers[victim].kill();
                killed += 1;
                workers[victim] = start();
            }
            _ => server.run::<()>(&["SCRIPT", "FLUSH"]),
        }
    }
    std::thread::sleep(1_000 * MS);
    for worker in &mut workers {
        worker.close_input();
        while worker.next_line().is_some() {}
    }
    drop(workers);

    let (mut turns, mut sure, mut unsure) = (BTreeMap::new(), 0, 0);
    for record in std::fs::read_dir(&records).unwrap() {
        let text = std::fs::read_to_string(record.unwrap().path()).unwrap();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match *words.last().unwrap() {
                "1" => sure += 1,
                "0" => {}
                _ => unsure += 1, // no answer from the storage: it may have been written
            }
            if let [fence, began, ended, _] = words[..] {
                let turn = Turn { began: began.parse().unwrap(), ended: ended.parse().unwrap() };
                let twin = turns.insert(fence.parse::<u64>().unwrap(), turn);
                assert!(twin.is_none(), "fence {fence} was given out twice");
            }
        }
    }
    std::fs::remove_dir_all(&records).unwrap();
    assert!(turns.len() > 100, "only {} turns", turns.len());
    let in_order: Vec<_> = turns.iter().collect();
    for pair in in_order.windows(2) {
        let ((fence, turn), (next_fence, next)) = (pair[0], pair[1]);
        assert!(turn.ended <= next.began, "{fence} {turn:?} overlaps {next_fence} {next:?}");
    }
    let counter = server.run::<i64>(&["GET", "counter"]);
    assert!(counter >= sure, "{sure} increments, and the counter says {counter}");
    assert!(
        counter <= sure + unsure + killed,
        "{sure} to {} and not {counter}",
        sure + unsure + killed
    );
}
