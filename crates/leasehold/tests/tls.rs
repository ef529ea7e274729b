//! `rediss://` against a real TLS server, with certificates made here.

#![cfg(all(feature = "tls", unix))]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use leasehold::{ConnectError, ErrorKind, RefusalCause};
use leasehold_testing::{Process, RedisServer, ServerOptions};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// A server with a certificate for `localhost`, signed by an authority of this test's own.
struct TlsServer {
    server: RedisServer,
    authority: PathBuf,
    _directory: Directory,
}

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn start(name: &str) -> TlsServer {
    let directory = std::env::temp_dir().join(format!("lh-tls-{name}-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();

    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(params, authority_key);

    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();

    let write = |file: &str, pem: String| {
        let path = directory.join(file);
        fs::write(&path, pem).unwrap();
        path
    };
    let authority = write("authority.pem", authority.pem());
    let certificate = write("server.pem", certificate.pem());
    let key = write("server.key", key.serialize_pem());
    let server = ServerOptions::default().tls(&certificate, &key, &authority).start();
    TlsServer { server, authority, _directory: Directory(directory) }
}

/// In a process of its own, since what it trusts is a matter of its environment.
#[tokio::test]
async fn a_trusted_server_is_used() {
    let tls = start("trusted");
    let trust = [("SSL_CERT_FILE", tls.authority.to_str().unwrap())];
    let mut holder = Process::start_example("hold", [&*tls.server.url(), "order", "5000"], &trust);
    holder.expect_line("held");
    assert_eq!(tls.server.run::<i64>(&["EXISTS", "order"]), 1);
    holder.close_input();
    holder.expect_line("released");
}

/// Fault row 25.
#[tokio::test]
async fn an_untrusted_certificate_is_refused_at_once() {
    let tls = start("untrusted");
    let error = leasehold::connect(&tls.server.url()).await.unwrap_err();
    let ConnectError::Refused(refused) = &error else { panic!("{error}") };
    assert_eq!(refused.cause(), RefusalCause::Tls, "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");
}

/// Fault row 25. A plain server says nothing to a TLS greeting, so all there is to tell is that
/// nobody answered, and how we asked.
#[tokio::test]
async fn a_server_without_tls_is_an_error_that_says_tls() {
    let server = RedisServer::start();
    let url = server.url().replace("redis:", "rediss:");
    let impatient = leasehold::builder().connect_timeout(Duration::from_millis(300));
    let error = impatient.connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("by TLS"), "{error}");
}

#[tokio::test]
async fn a_tls_server_spoken_to_in_the_clear_is_an_error_and_no_hang() {
    let tls = start("clear");
    let url = tls.server.url().replace("rediss:", "redis:");
    let error = leasehold::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
}
