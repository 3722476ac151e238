//! TLS: trust, proxy tunnels, and the reported end of encrypted requests.

use mendline::decisions::reason::ConnectError;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mendline::os::files::make_private;
use mendline::transport::http::{ClientCertificate, Dial, Dialed, HostPort, Protocol, ProxyRules, Target, TlsOptions};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::stage::{
    BreakingDialer, MemoryDialer, PING, PONG, Server, Servers, Stage, json, memory_dialer, post, target,
};

/// A certificate authority of the test.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(super) pem: String,
}

impl Authority {
    pub(super) fn new(name: &str) -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    pub(super) fn server(&self, name: &str, until: i32, protocols: &[&str]) -> TlsAcceptor {
        self.server_for(name, until, protocols, Arc::new(rustls::server::NoClientAuth))
    }

    /// Returns a server that asks its clients for certificates of this authority.
    fn server_with_clients(&self, name: &str) -> TlsAcceptor {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        self.server_for(name, VALID, &["http/1.1"], clients)
    }

    fn server_for(
        &self,
        name: &str,
        until: i32,
        protocols: &[&str],
        clients: Arc<dyn ClientCertVerifier>,
    ) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(until, 5, 17);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let builder = builder.with_client_cert_verifier(clients);
        let mut config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }

    /// Writes a client certificate of this authority and its key.
    fn client(&self, folder: &Path) -> ClientCertificate {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["client".to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        let paths = (folder.join("client.pem"), folder.join("client.key"));
        std::fs::write(&paths.0, certificate.pem()).unwrap();
        std::fs::write(&paths.1, key.serialize_pem()).unwrap();
        make_private(&paths.1).unwrap();
        ClientCertificate::read(&paths.0, &paths.1).unwrap()
    }

    fn trusted(&self) -> Target {
        let mut options = TlsOptions::default();
        options.trust(self.pem.as_bytes()).unwrap();
        target("https://x.test/mcp").tls(options)
    }
}

pub(super) const VALID: i32 = 2200;

async fn secure(servers: &mut Servers, acceptor: &TlsAcceptor) -> std::io::Result<Server<TlsStream<DuplexStream>>> {
    acceptor.accept(servers.next().await.0).await.map(Server)
}

async fn end_of(target: Target, acceptor: &TlsAcceptor) -> String {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(target, dial);
    stage.begin(post(PING));
    let serve = async {
        if let Ok(mut server) = secure(&mut servers, acceptor).await {
            server.answer(json(PONG)).await;
        }
    };
    let (facts, ()) = tokio::join!(stage.facts(1), serve);
    facts.last().unwrap().clone()
}

#[tokio::test]
async fn certificate_needs_valid_name_date_and_authority() {
    let authority = Authority::new("ours");
    let http1 = &["http/1.1"][..];
    let good = authority.server("x.test", VALID, http1);
    assert_eq!(end_of(authority.trusted(), &good).await, "end Complete Whole");
    let words = "x.test:443 is not trusted: its certificate expired on 2024-05-17; its operator must renew it";
    let expired = authority.server("x.test", 2024, http1);
    assert_eq!(end_of(authority.trusted(), &expired).await, format!("end Forbidden({words:?}) Nothing"));
    let words = "x.test:443 is not trusted: its certificate is for y.test, not for x.test";
    let misnamed = authority.server("y.test", VALID, http1);
    assert_eq!(end_of(authority.trusted(), &misnamed).await, format!("end Forbidden({words:?}) Nothing"));
    let words = "x.test:443 is not trusted: its certificate comes from an authority that this machine does not know; \
                 if you trust that authority, name its file with NODE_EXTRA_CA_CERTS=/path/authority.pem";
    let foreign = Authority::new("theirs").server("x.test", VALID, http1);
    assert_eq!(end_of(authority.trusted(), &foreign).await, format!("end Forbidden({words:?}) Nothing"));
}

#[tokio::test]
async fn client_certificate_is_presented_to_a_server_that_asks_for_one() {
    let authority = Authority::new("ours");
    let folder = tempfile::tempdir().unwrap();
    let mut options = TlsOptions::default();
    options.trust(authority.pem.as_bytes()).unwrap();
    options.present(authority.client(folder.path()));
    let target = target("https://x.test/mcp").tls(options);
    let picky = authority.server_with_clients("x.test");
    assert_eq!(end_of(target, &picky).await, "end Complete Whole");
    let refused = end_of(authority.trusted(), &picky).await;
    assert!(refused.contains("wants a client certificate"), "{refused}");
}

/// Returns a server with a self-signed certificate, and that certificate.
fn self_signed(name: &str, until: i32, is_ca: IsCa) -> (TlsAcceptor, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, "a server");
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(until, 5, 17);
    params.is_ca = is_ca;
    let certificate = params.self_signed(&key).unwrap();
    (acceptor(&certificate, &key), certificate.pem())
}

/// Returns a server with this certificate and this key, which need not match.
fn acceptor(certificate: &rcgen::Certificate, key: &KeyPair) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let der = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let signer = provider.key_provider.load_private_key(der).unwrap();
    let shown = CertifiedKey::new(vec![certificate.der().clone()], signer);
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_no_client_auth().with_cert_resolver(Arc::new(SingleCertAndKey::from(shown)));
    TlsAcceptor::from(Arc::new(config))
}

fn trusting(pem: &str) -> Target {
    let mut options = TlsOptions::default();
    options.trust(pem.as_bytes()).unwrap();
    target("https://x.test/mcp").tls(options)
}

const KINDS: [IsCa; 3] = [IsCa::NoCa, IsCa::ExplicitNoCa, IsCa::Ca(BasicConstraints::Unconstrained)];

#[tokio::test]
async fn u06_trusted_self_signed_certificate_is_accepted() {
    for kind in KINDS {
        let (server, pem) = self_signed("x.test", VALID, kind);
        assert_eq!(end_of(trusting(&pem), &server).await, "end Complete Whole", "{kind:?}");
        let store = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(store.path(), &pem).unwrap();
        let mut options = TlsOptions::default();
        // The certificate store must not be empty.
        options.trust(Authority::new("ours").pem.as_bytes()).unwrap();
        options.store(store.path().to_owned());
        let end = end_of(target("https://x.test/mcp").tls(options), &server).await;
        assert_eq!(end, "end Complete Whole", "{kind:?}");
    }
}

#[tokio::test]
async fn u06_trusted_self_signed_certificate_still_needs_name_and_date() {
    for kind in KINDS {
        let (expired, pem) = self_signed("x.test", 2024, kind);
        let words = "x.test:443 is not trusted: its certificate expired on 2024-05-17; its operator must renew it";
        assert_eq!(end_of(trusting(&pem), &expired).await, format!("end Forbidden({words:?}) Nothing"));
        let (misnamed, pem) = self_signed("y.test", VALID, kind);
        let words = "x.test:443 is not trusted: its certificate is for y.test, not for x.test";
        assert_eq!(end_of(trusting(&pem), &misnamed).await, format!("end Forbidden({words:?}) Nothing"));
    }
}

#[tokio::test]
async fn u06_other_self_signed_certificate_is_refused_with_advice() {
    let words = "x.test:443 is not trusted: its certificate is self-signed; if it is yours, trust it with \
                 NODE_EXTRA_CA_CERTS=/path/cert.pem";
    for kind in KINDS {
        let (server, _) = self_signed("x.test", VALID, kind);
        // The same names and dates with another key.
        let (_, other) = self_signed("x.test", VALID, kind);
        let end = end_of(trusting(&other), &server).await;
        assert!(end.starts_with("end Forbidden(") && end.ends_with(" Nothing"), "{kind:?}: {end}");
        let end = end_of(Authority::new("ours").trusted(), &server).await;
        assert_eq!(end, format!("end Forbidden({words:?}) Nothing"), "{kind:?}");
    }
}

#[tokio::test]
async fn u06_trusted_certificate_without_its_key_is_refused() {
    let (own, stolen) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    for kind in KINDS {
        let mut params = CertificateParams::new(vec!["x.test".to_owned()]).unwrap();
        params.is_ca = kind;
        let certificate = params.self_signed(&own).unwrap();
        let good = end_of(trusting(&certificate.pem()), &acceptor(&certificate, &own)).await;
        assert_eq!(good, "end Complete Whole", "{kind:?}");
        let words = "x.test:443 is not trusted: a signature of its certificate or of its handshake is wrong";
        let end = end_of(trusting(&certificate.pem()), &acceptor(&certificate, &stolen)).await;
        assert_eq!(end, format!("end Forbidden({words:?}) Nothing"), "{kind:?}");
    }
}

#[tokio::test]
async fn u06_authority_as_server_is_refused_with_advice() {
    let authority = Authority::new("ours");
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["x.test".to_owned()]).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, "below ours");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.signed_by(&key, &authority.issuer).unwrap();
    let words = "x.test:443 is not trusted: its certificate is that of an authority and not for a server; if it is yours, \
                 trust it with NODE_EXTRA_CA_CERTS=/path/cert.pem";
    let server = acceptor(&certificate, &key);
    assert_eq!(end_of(authority.trusted(), &server).await, format!("end Forbidden({words:?}) Nothing"));
    assert_eq!(end_of(trusting(&certificate.pem()), &server).await, "end Complete Whole");
}

#[tokio::test]
async fn plain_server_is_not_reported_as_untrusted() {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(Authority::new("ours").trusted(), dial);
    stage.begin(post(PING));
    let serve = async {
        let mut server = servers.next().await;
        server.write("HTTP/1.1 400 Bad Request\r\n\r\n").await;
        server
    };
    let (facts, _server) = tokio::join!(stage.facts(1), serve);
    let words = "x.test:443 does not speak TLS; is it an http:// server?";
    assert_eq!(facts, [format!("end NoConnection({words:?}) Nothing")]);
}

#[tokio::test(start_paused = true)]
async fn unfinished_tls_handshake_is_reported() {
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(Authority::new("ours").trusted(), dial);
    stage.begin(post(PING));
    let (facts, _server) = tokio::join!(stage.facts(1), servers.next());
    let words = "x.test:443 did not finish the TLS handshake within 5.0 s";
    assert_eq!(facts, [format!("end NoConnection({words:?}) Nothing")]);
}

#[tokio::test]
async fn http2_is_negotiated_when_both_sides_support_it() {
    let authority = Authority::new("ours");
    for (offers, protocol, http2) in [
        (&["h2", "http/1.1"][..], Protocol::Negotiated, true),
        (&["http/1.1"], Protocol::Negotiated, false),
        (&[], Protocol::Negotiated, false),
        (&["h2", "http/1.1"], Protocol::Http1, false),
    ] {
        let acceptor = authority.server("x.test", VALID, offers);
        let (dial, mut servers) = memory_dialer();
        let mut stage = Stage::new(authority.trusted().protocol(protocol), dial);
        stage.begin(post(PING));
        let serve = async {
            let mut server = secure(&mut servers, &acceptor).await.unwrap();
            let mut first = [0; 4];
            server.0.read_exact(&mut first).await.unwrap();
            first
        };
        let (_, first) = tokio::join!(stage.facts(1), serve);
        assert_eq!(&first == b"PRI ", http2, "{offers:?} {protocol:?}");
    }
}

#[tokio::test]
async fn concurrent_exchanges_share_first_tls_handshake() {
    let authority = Authority::new("ours");
    let acceptor = authority.server("x.test", VALID, &["h2"]);
    let (dial, mut servers) = memory_dialer();
    let mut stage = Stage::new(authority.trusted(), dial);
    for _ in 0..3 {
        stage.begin(post(PING));
    }
    let serve = async {
        let server = secure(&mut servers, &acceptor).await.unwrap();
        let mut connection = h2::server::handshake(server.0).await.unwrap();
        for _ in 0..3 {
            let (_, mut respond) = connection.accept().await.unwrap().unwrap();
            let response = http::Response::builder().header("content-type", "application/json").body(()).unwrap();
            respond.send_response(response, false).unwrap().send_data(PONG.into(), true).unwrap();
        }
        std::future::poll_fn(|cx| connection.poll_closed(cx)).await
    };
    let ask = async {
        let facts = stage.facts(3).await;
        stage.http.close();
        facts
    };
    let (facts, _) = tokio::join!(ask, serve);
    assert_eq!(facts.iter().filter(|fact| fact.ends_with("end Complete Whole")).count(), 3, "{facts:?}");
    assert_eq!(servers.unseen(), 0);
}

/// A dialer that records its targets.
struct RecordingDialer(MemoryDialer, Arc<std::sync::Mutex<Vec<HostPort>>>);

impl Dial for RecordingDialer {
    type Io = DuplexStream;

    fn dial(
        &self,
        place: &HostPort,
        patience: Duration,
    ) -> impl Future<Output = Result<Dialed<DuplexStream>, ConnectError>> + Send + 'static {
        self.1.lock().unwrap().push(place.clone());
        self.0.dial(place, patience)
    }
}

#[tokio::test]
async fn https_server_is_reached_through_proxy_tunnel() {
    let authority = Authority::new("ours");
    let acceptor = authority.server("x.test", VALID, &["http/1.1"]);
    let rules = ProxyRules::from_variables([("https_proxy", "http://me:pw@proxy.test:3128")]).unwrap();
    let (dial, mut servers) = memory_dialer();
    let places = Arc::default();
    let mut stage = Stage::new(authority.trusted().proxies(&rules), RecordingDialer(dial, Arc::clone(&places)));
    stage.begin(post(PING));
    let serve = async {
        let mut proxy = servers.next().await;
        let asked = proxy.request().await;
        proxy.write("HTTP/1.1 200 Connection established\r\n\r\n").await;
        let mut server = Server(acceptor.accept(proxy.0).await.unwrap());
        (asked, server.answer(json(PONG)).await)
    };
    let (facts, (asked, request)) = tokio::join!(stage.facts(1), serve);
    assert_eq!(facts.last().unwrap(), "end Complete Whole");
    assert_eq!(asked, "CONNECT x.test:443 HTTP/1.1\r\nHost: x.test:443\r\nProxy-Authorization: Basic bWU6cHc=\r\n\r\n");
    assert!(request.starts_with("POST /mcp HTTP/1.1\r\nhost: x.test\r\n"), "{request}");
    assert!(!request.contains("proxy-authorization"), "{request}");
    assert_eq!(*places.lock().unwrap(), [HostPort { host: "proxy.test".into(), port: 3128 }]);
}

#[tokio::test]
async fn proxy_refusing_tunnel_is_named() {
    for (answer, words) in [
        ("HTTP/1.1 407 x\r\n\r\n", "Forbidden(\"the proxy proxy.test:3128 wants other credentials (407)\")"),
        ("HTTP/1.1 502 x\r\n\r\n", "NoConnection(\"the proxy proxy.test:3128 made no tunnel to x.test:443 (502)\")"),
    ] {
        let rules = ProxyRules::from_variables([("https_proxy", "proxy.test:3128")]).unwrap();
        let (dial, mut servers) = memory_dialer();
        let mut stage = Stage::new(Authority::new("ours").trusted().proxies(&rules), dial);
        stage.begin(post(PING));
        let (facts, _) = tokio::join!(stage.facts(1), async { servers.next().await.answer(answer).await });
        assert_eq!(facts, [format!("end {words} Nothing")]);
    }
}

/// Cuts an encrypted request after each number of bytes, and compares the reported end with what the server received.
#[tokio::test]
async fn cut_tls_request_is_never_underreported() {
    let authority = Authority::new("ours");
    let acceptor = authority.server("x.test", VALID, &["http/1.1"]);
    let mut counts = [0; 3];
    for accepted in (150..1100).step_by(7).chain(500..900) {
        let (dial, mut servers) = BreakingDialer::new(&[accepted]);
        let dials = Arc::clone(&dial.dials);
        let mut stage = Stage::new(authority.trusted(), dial);
        stage.begin(post(PING));
        let serve = async {
            let Ok(mut server) = secure(&mut servers, &acceptor).await else {
                return None;
            };
            let mut plain = Vec::new();
            // The server answers a complete request. An incomplete one ends with the connection.
            let whole = loop {
                match tokio::time::timeout(Duration::from_millis(200), server.0.read_buf(&mut plain)).await {
                    Ok(Ok(1..)) if plain.ends_with(PING.as_bytes()) => break true,
                    Ok(Ok(1..)) => {}
                    _ => break false,
                }
            };
            let _ = server.0.shutdown().await;
            Some((whole, plain.len()))
        };
        let (facts, seen) = tokio::join!(stage.facts(1), serve);
        let end = facts.last().unwrap();
        match seen {
            Some((true, _)) => assert!(end.ends_with(" Whole"), "{accepted}: the server has it all, reported {end}"),
            Some((false, 1..)) => {
                assert!(!end.ends_with(" Nothing"), "{accepted}: the server has some, reported {end}");
            }
            _ => {}
        }
        counts[0] += usize::from(end.ends_with(" Nothing"));
        counts[1] += usize::from(end.ends_with(" Partial"));
        counts[2] += usize::from(end.ends_with(" Whole"));
        assert_eq!(dials.load(Ordering::Relaxed), 1);
    }
    assert!(counts.iter().all(|count| *count > 10), "the cuts meet every case: {counts:?}");
}
