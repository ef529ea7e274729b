//! What every store promises, as one list that each store runs.
//!
//! A case gets two clients of the same store and nothing else. Time is real here, so cases
//! wait for events and give lower bounds only; logic that depends on exact times is tested
//! under injected time in `src/proto`.

use std::time::Duration;

mod line;
mod many;
mod owners;
mod several_names;
mod single;

use line::*;
use many::*;
use owners::*;
use several_names::*;
use single::*;

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// A TTL that sees a renewal soon, and that a machine under load still keeps.
pub(crate) const SHORT: Duration = Duration::from_millis(1_200);

pub(crate) async fn is_free(client: &leasehold::Client, name: &str) -> bool {
    client.inspect(name).await.unwrap().is_free()
}

/// Runs every case of the list on every store.
macro_rules! conformance {
    ($($case:ident,)+) => {
        mod memory {
            $(#[tokio::test]
            async fn $case() {
                let client = leasehold::connect("memory:").await.unwrap();
                super::$case(client.clone(), client).await;
            })+
        }

        #[cfg(feature = "redis")]
        mod redis {
            $(#[tokio::test]
            async fn $case() {
                let server = leasehold_testing::RedisServer::start();
                let one = leasehold::connect(&server.url()).await.unwrap();
                let other = leasehold::connect(&server.url()).await.unwrap();
                super::$case(one, other).await;
                // The counter that fences come from is the one key that may live on.
                leasehold_testing::eventually("nothing left in the store", async || {
                    server.keys().iter().all(|key| key == "leasehold:1:fence")
                })
                .await;
            })+
        }
    };
}

conformance! {
    released_names_are_free,
    a_held_name_is_busy_and_tells_the_holder,
    trying_a_held_name_answers_none,
    dropping_a_lease_releases_it,
    names_do_not_block_each_other,
    names_of_all_sorts_work,
    bad_input_is_refused_before_anything_is_sent,
    metadata_can_be_any_bytes,
    fences_grow_from_holder_to_holder,
    fences_are_unique_across_names,
    a_lease_outlives_its_ttl_by_renewal,
    a_fixed_lease_runs_out_and_says_so,
    an_expired_lease_is_free_for_others,
    releasing_a_lost_lease_says_lost,
    renewal_by_hand_extends_and_shortens,
    renewal_by_hand_never_brings_a_lease_back,
    renewal_by_hand_checks_its_ttl,
    max_hold_ends_a_renewed_lease,
    max_hold_limits_renewal_by_hand,
    remaining_is_asked_from_the_store,
    waiting_ends_when_the_holder_releases,
    waiting_ends_when_the_holder_runs_out,
    waiting_gives_up_in_time,
    tries_are_limited,
    inspection_tells_what_is_known,
    breaking_a_lease_tells_its_holder,
    breaking_hits_only_the_holder_that_was_seen,
    run_gives_the_output_and_releases,
    run_is_cancelled_when_the_lease_is_lost,
    run_keeps_the_output_of_a_body_that_outlived_the_lease,
    every_listener_hears_of_the_loss,
    dropping_an_acquisition_at_any_await_leaves_nothing_behind,
    a_lease_outlives_its_client,
    closing_releases_ends_waits_and_refuses,
    a_guarded_counter_loses_nothing,
    leases_and_builders_can_cross_tasks,
    a_detached_lease_is_resumed_elsewhere,
    a_grant_that_ran_out_or_was_taken_is_lost,
    a_resumed_lease_is_kept_and_released_once,
    several_names_are_one_lease,
    several_names_are_taken_all_or_none,
    names_given_twice_count_once_and_none_are_refused,
    losing_one_of_several_names_is_losing_all,
    finding_one_of_several_names_lost_gives_the_others_back,
    several_names_the_other_way_round_do_not_deadlock,
    several_names_are_renewed_as_one,
    several_names_can_be_handed_on,
    an_owner_enters_again_by_the_same_fence,
    a_hundred_entries_of_one_owner_and_a_hundred_releases,
    another_owner_is_kept_out_even_if_it_begins_alike,
    a_hold_that_runs_out_does_not_free_the_others,
    a_dropped_hold_leaves_the_others,
    closing_takes_away_the_holds_of_this_client_only,
    an_owner_and_its_holds_can_be_seen,
    an_owner_is_not_taken_for_a_token,
    a_hold_can_be_handed_on,
    an_owner_can_have_several_names,
    breaking_an_owners_lock_tells_every_hold,
    bad_owners_are_refused,
    waiters_are_served_in_the_order_in_which_they_came,
    tasks_of_one_process_are_served_in_order_and_have_one_place,
    two_processes_take_turns,
    waiters_can_be_seen,
    a_waiter_that_gives_up_leaves_no_trace,
    a_waiter_dropped_as_it_is_served_passes_it_on,
    whoever_polls_does_not_overtake_the_line,
    the_line_moves_on_when_the_holder_runs_out,
    the_line_moves_on_when_the_lock_is_broken,
    waiters_for_several_names_get_through,
    an_owner_does_not_wait_behind_strangers_who_wait_for_it,
    a_waiting_owner_is_served_in_its_turn,
    an_owner_does_not_wait_behind_itself_for_several_names,
    a_place_passes_to_the_next_task_when_one_gives_up,
    a_lease_detached_before_it_is_confirmed_says_how_long_it_lasts,
    leases_from_the_line_are_kept_like_any_other,
    a_storm_of_waiters_leaves_nothing_behind,
    ten_thousand_leases_are_kept_and_one_lost_is_told_alone,
    a_crowd_on_many_names_gets_all_and_leaves_nothing,
    a_crowd_on_one_name_excludes_itself,
}
