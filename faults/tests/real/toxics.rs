//! Tests of every toxic, seen from both ends of the proxy.
//!
//! The upstream is a socket of the test, so that every byte can be inspected.

use std::io::ErrorKind;
use std::time::Duration;

use mendline_faults::toxic::{
    ALL, Bandwidth, BlackHole, Drip, Flap, HalfOpen, Latency, LimitData, Partition, Refuse, Reset, Slicer, SlowClose,
    Toxic, Unplugged,
};
use mendline_faults::{Direction, Ending, Proxy};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

use crate::client::{Connection, End, TIMEOUT};

/// Long enough for bytes to pass on loopback, short enough to wait for their absence.
const A_WHILE: Duration = Duration::from_millis(60);

/// Longer than any test, in milliseconds.
const AN_HOUR: u64 = 3_600_000;
const REFUSED: Result<(), ErrorKind> = Err(ErrorKind::ConnectionRefused);

/// A proxy in front of a socket of the test.
struct Fixture {
    proxy: Proxy,
    upstream: TcpListener,
}

impl Fixture {
    async fn new() -> Fixture {
        let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(upstream.local_addr().unwrap()).await.unwrap();
        Fixture { proxy, upstream }
    }

    /// Both ends of a connection through the proxy.
    async fn connect(&self) -> (Connection, UpstreamSocket) {
        let before = self.proxy.counts().dialed;
        let near = Connection::dial(self.proxy.address()).await;
        let far = self.accept().await;
        self.proxy.until(TIMEOUT, |counts| counts.dialed > before).await.unwrap();
        (near, far)
    }

    async fn accept(&self) -> UpstreamSocket {
        UpstreamSocket(timeout(TIMEOUT, self.upstream.accept()).await.unwrap().unwrap().0)
    }

    /// Dials until the result is the wanted one, or until the timeout.
    async fn until_dialing(&self, wanted: Result<(), ErrorKind>) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let dialed = timeout(TIMEOUT, TcpStream::connect(self.proxy.address())).await.unwrap();
            let ended = dialed.map(drop).map_err(|error| error.kind());
            if ended == wanted {
                return;
            }
            // A dial during the change may be accepted and reset.
            assert!(
                matches!(ended, Ok(()) | Err(ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset)),
                "{ended:?}"
            );
            assert!(Instant::now() < deadline, "never {wanted:?}");
            tokio::task::yield_now().await;
        }
    }
}

/// The upstream's end of a connection.
struct UpstreamSocket(TcpStream);

impl UpstreamSocket {
    async fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    async fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        timeout(TIMEOUT, self.0.read_exact(&mut bytes)).await.unwrap().unwrap();
        bytes
    }

    async fn end(&mut self) -> End {
        match timeout(TIMEOUT, self.0.read(&mut [0; 64])).await.unwrap() {
            Ok(0) => End::Fin,
            Ok(count) => panic!("{count} bytes came"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                End::Reset
            }
        }
    }

    async fn is_silent(&mut self, time: Duration) -> bool {
        timeout(time, self.0.read(&mut [0; 64])).await.is_err()
    }
}

/// Reads exactly so many bytes.
async fn read(connection: &mut Connection, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < count {
        bytes.extend(connection.bytes(count - bytes.len()).await.unwrap());
    }
    bytes
}

#[test]
fn every_toxic_has_a_test_here() {
    let tests = include_str!("toxics.rs");
    for (name, ..) in ALL {
        assert!(tests.contains(&format!("async fn {name}_")), "{name} is not tested");
    }
}

#[tokio::test]
async fn latency_delays_only_its_direction() {
    let fixture = Fixture::new().await;
    let (mut near, mut far) = fixture.connect().await;
    fixture.proxy.add(Direction::Down, Toxic::Latency(Latency { ms: AN_HOUR }));
    far.write(b"never").await;
    near.write(b"at once").await;
    assert_eq!(far.read(7).await, b"at once");
    assert!(near.is_silent(A_WHILE).await);
    fixture.proxy.clear();
    let (mut near, mut far) = fixture.connect().await;
    fixture.proxy.add(Direction::Down, Toxic::Latency(Latency { ms: 100 }));
    let start = Instant::now();
    far.write(b"late").await;
    assert_eq!(read(&mut near, 4).await, b"late");
    assert!(start.elapsed() >= Duration::from_millis(100));
}

#[tokio::test]
async fn bandwidth_limits_the_rate_of_bytes() {
    let fixture = Fixture::new().await;
    let (mut near, mut far) = fixture.connect().await;
    fixture.proxy.add(Direction::Up, Toxic::Bandwidth(Bandwidth { bytes_per_second: 10_000 }));
    let start = Instant::now();
    near.write(&[b'x'; 2_000]).await;
    assert_eq!(far.read(2_000).await.len(), 2_000);
    assert!(start.elapsed() >= Duration::from_millis(150), "the last 500 bytes wait for 1500");
    assert_eq!(fixture.proxy.until(TIMEOUT, |counts| counts.up.pieces == 4).await.unwrap().up.written, 2_000);
}

#[tokio::test]
async fn slicer_changes_pieces_and_keeps_bytes() {
    let fixture = Fixture::new().await;
    let (mut near, mut far) = fixture.connect().await;
    fixture.proxy.add(Direction::Both, Toxic::Slicer(Slicer { bytes: 1, gap_ms: 0 }));
    near.write(b"hello").await;
    assert_eq!(far.read(5).await, b"hello");
    far.write(b"there").await;
    assert_eq!(read(&mut near, 5).await, b"there");
    let counts = fixture.proxy.until(TIMEOUT, |counts| counts.down.written == 5).await.unwrap();
    assert_eq!((counts.up.pieces, counts.down.pieces), (5, 5));
}

#[tokio::test]
async fn drip_passes_one_byte_at_a_time() {
    let fixture = Fixture::new().await;
    let (mut near, mut far) = fixture.connect().await;
    fixture.proxy.add(Direction::Down, Toxic::Drip(Drip { ms: 10 }));
    let start = Instant::now();
    far.write(b"drops").await;
    assert_eq!(read(&mut near, 5).await, b"drops");
    assert!(start.elapsed() >= Duration::from_millis(40));
    assert_eq!(fixture.proxy.until(TIMEOUT, |counts| counts.down.written == 5).await.unwrap().down.pieces, 5);
}

#[tokio::test]
async fn limit_data_ends_the_connection_at_the_exact_byte() {
    for (ending, end) in [(Ending::Fin, End::Fin), (Ending::Reset, End::Reset)] {
        let fixture = Fixture::new().await;
        fixture.proxy.add(Direction::Down, Toxic::LimitData(LimitData { bytes: 3, ending }));
        let (mut near, mut far) = fixture.connect().await;
        near.write(b"ask").await;
        assert_eq!(far.read(3).await, b"ask");
        far.write(b"answer").await;
        assert_eq!(read(&mut near, 3).await, b"ans");
        assert_eq!(near.end().await, end);
        assert_eq!(far.end().await, end, "on both sides");
        let (mut near, mut far) = fixture.connect().await;
        far.write(b"no").await;
        assert_eq!(read(&mut near, 2).await, b"no", "each connection has its own limit");
        assert_eq!(fixture.proxy.counts().cut, 1);
    }
}

#[tokio::test]
async fn slow_close_delays_only_the_end() {
    let fixture = Fixture::new().await;
    let (mut near, mut far) = fixture.connect().await;
    fixture.proxy.add(Direction::Down, Toxic::SlowClose(SlowClose { ms: AN_HOUR }));
    far.write(b"bye").await;
    far.0.shutdown().await.unwrap();
    assert_eq!(read(&mut near, 3).await, b"bye");
    assert!(near.is_silent(A_WHILE).await);
    fixture.proxy.clear();
    let (mut near, mut far) = fixture.connect().await;
    fixture.proxy.add(Direction::Down, Toxic::SlowClose(SlowClose { ms: 100 }));
    let start = Instant::now();
    far.0.shutdown().await.unwrap();
    assert_eq!(near.end().await, End::Fin);
    assert!(start.elapsed() >= Duration::from_millis(100));
}

#[tokio::test]
async fn black_hole_accepts_and_forwards_nothing() {
    let fixture = Fixture::new().await;
    let (mut old, mut far) = fixture.connect().await;
    fixture.proxy.add(Direction::Both, Toxic::BlackHole(BlackHole {}));
    let mut new = Connection::dial(fixture.proxy.address()).await;
    new.write(b"hello?").await;
    old.write(b"hello?").await;
    fixture.proxy.until(TIMEOUT, |counts| counts.up.lost == 12).await.unwrap();
    fixture.proxy.clear();
    assert!(far.is_silent(A_WHILE).await && old.is_silent(A_WHILE).await && new.is_silent(A_WHILE).await);
    assert_eq!((fixture.proxy.counts().dialed, fixture.proxy.counts().up.written), (1, 0));
    let (mut sound, mut far) = fixture.connect().await;
    sound.write(b"hello").await;
    assert_eq!(far.read(5).await, b"hello", "new connections work after the removal");
}

#[tokio::test]
async fn half_open_silences_open_connections_without_an_error() {
    let fixture = Fixture::new().await;
    let (mut near, mut far) = fixture.connect().await;
    fixture.proxy.add(Direction::Both, Toxic::HalfOpen(HalfOpen {}));
    near.write(b"hello?").await;
    far.write(b"hello???").await;
    fixture.proxy.until(TIMEOUT, |counts| counts.up.lost == 6 && counts.down.lost == 8).await.unwrap();
    assert!(near.is_silent(A_WHILE).await);
    drop(near);
    fixture.proxy.until(TIMEOUT, |counts| counts.up.ends == 1).await.unwrap();
    assert!(far.is_silent(A_WHILE).await, "the other side does not see the end");
    let (mut near, mut far) = fixture.connect().await;
    near.write(b"hello").await;
    assert_eq!(far.read(5).await, b"hello", "new connections work");
}

#[tokio::test]
async fn partition_stops_directions_and_loses_nothing() {
    let fixture = Fixture::new().await;
    let (mut near, mut far) = fixture.connect().await;
    let down = fixture.proxy.add(Direction::Down, Toxic::Partition(Partition {}));
    far.write(b"down").await;
    near.write(b"up").await;
    assert_eq!(far.read(2).await, b"up", "the other direction passes");
    assert!(near.is_silent(A_WHILE).await);
    assert!(fixture.proxy.remove(down));
    assert_eq!(read(&mut near, 4).await, b"down");
    fixture.proxy.add(Direction::Both, Toxic::Partition(Partition {}));
    near.write(b"up").await;
    let mut new = Connection::dial(fixture.proxy.address()).await;
    new.write(b"new").await;
    assert!(far.is_silent(A_WHILE).await);
    assert_eq!(fixture.proxy.counts().dialed, 1, "a new connection does not get through");
    fixture.proxy.clear();
    assert_eq!(far.read(2).await, b"up");
    assert_eq!(fixture.accept().await.read(3).await, b"new");
}

#[tokio::test]
async fn fin_during_a_partition_does_not_start_reading() {
    let fixture = Fixture::new().await;
    let mut near = TcpStream::connect(fixture.proxy.address()).await.unwrap();
    let _far = fixture.accept().await;
    fixture.proxy.add(Direction::Up, Toxic::Partition(Partition {}));
    fixture.proxy.cut(Ending::Fin);
    assert_eq!(timeout(TIMEOUT, near.read(&mut [0])).await.unwrap().unwrap(), 0, "the FIN is not delayed");
    let more_than_all_buffers = vec![0; 12 << 20];
    let written = timeout(TIMEOUT, near.write_all(&more_than_all_buffers)).await.unwrap();
    assert!(written.is_err(), "the proxy has read it");
}

#[tokio::test]
async fn unplugged_drops_keep_alive_probes_and_recovers_bytes() {
    let fixture = Fixture::new().await;
    let (mut near, mut far) = fixture.connect().await;
    let mut probing = TcpStream::connect(fixture.proxy.address()).await.unwrap();
    SockRef::from(&probing).set_tcp_user_timeout(Some(A_WHILE)).unwrap();
    let _probed = fixture.accept().await;
    let unplugged = fixture.proxy.add(Direction::Both, Toxic::Unplugged(Unplugged {}));
    fixture.proxy.until(TIMEOUT, |counts| counts.unplugged == 2).await.unwrap();
    near.write(b"up").await;
    far.write(b"down").await;
    assert!(near.is_silent(A_WHILE).await);
    probing.write_all(b"hello?").await.unwrap();
    let ended = timeout(TIMEOUT, probing.read(&mut [0])).await.unwrap();
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::TimedOut, "the kernel of the proxy has answered");
    let (mut sound, mut other) = fixture.connect().await;
    sound.write(b"hello").await;
    assert_eq!(other.read(5).await, b"hello", "new connections work");
    fixture.proxy.remove(unplugged);
    assert_eq!((far.read(2).await, read(&mut near, 4).await), (b"up".to_vec(), b"down".to_vec()));
}

#[tokio::test]
async fn clog_stops_one_connection_only() {
    let fixture = Fixture::new().await;
    let (mut first, mut first_far) = fixture.connect().await;
    let (mut second, mut second_far) = fixture.connect().await;
    let [clogged, _] = fixture.proxy.connections()[..] else { panic!("two connections") };
    assert!(fixture.proxy.clog(clogged));
    first.write(b"one").await;
    second.write(b"two").await;
    assert_eq!(second_far.read(3).await, b"two");
    assert!(first_far.is_silent(A_WHILE).await);
    assert!(fixture.proxy.unclog(clogged));
    assert_eq!(first_far.read(3).await, b"one");
    assert!(!fixture.proxy.clog(0), "unknown connection");
}

#[tokio::test]
async fn reset_ends_open_and_new_connections() {
    let fixture = Fixture::new().await;
    let (mut near, mut far) = fixture.connect().await;
    let reset = fixture.proxy.add(Direction::Both, Toxic::Reset(Reset {}));
    assert_eq!((near.end().await, far.end().await), (End::Reset, End::Reset));
    let mut near = Connection::dial(fixture.proxy.address()).await;
    assert_eq!(near.end().await, End::Reset);
    fixture.proxy.remove(reset);
    let (mut near, mut far) = fixture.connect().await;
    near.write(b"hello").await;
    assert_eq!(far.read(5).await, b"hello");
    assert_eq!(fixture.proxy.counts().cut, 2);
}

#[tokio::test]
async fn refuse_rejects_new_connections_and_keeps_open_ones() {
    let fixture = Fixture::new().await;
    let (mut near, mut far) = fixture.connect().await;
    for _ in 0..3 {
        fixture.proxy.add(Direction::Both, Toxic::Refuse(Refuse {}));
        fixture.until_dialing(REFUSED).await;
        near.write(b"still here").await;
        assert_eq!(far.read(10).await, b"still here");
        fixture.proxy.clear();
        fixture.until_dialing(Ok(())).await;
    }
}

#[tokio::test]
async fn flap_alternates_between_down_and_up() {
    let fixture = Fixture::new().await;
    let (mut near, _far) = fixture.connect().await;
    fixture.proxy.add(Direction::Both, Toxic::Flap(Flap { down_ms: 30, up_ms: 30 }));
    assert_eq!(near.end().await, End::Reset);
    for _ in 0..3 {
        fixture.until_dialing(REFUSED).await;
        fixture.until_dialing(Ok(())).await;
    }
    fixture.proxy.clear();
    fixture.until_dialing(Ok(())).await;
}

#[tokio::test]
async fn toxics_are_listed_in_order_and_removed_by_number() {
    let fixture = Fixture::new().await;
    let (mut near, mut far) = fixture.connect().await;
    let slicer = fixture.proxy.add(Direction::Up, Toxic::Slicer(Slicer { bytes: 2, gap_ms: 0 }));
    let limit = fixture.proxy.add(Direction::Up, Toxic::LimitData(LimitData { bytes: 100, ending: Ending::Fin }));
    assert_eq!(fixture.proxy.toxics().iter().map(|(number, ..)| *number).collect::<Vec<_>>(), [slicer, limit]);
    assert!(fixture.proxy.remove(slicer) && !fixture.proxy.remove(slicer));
    near.write(b"whole").await;
    assert_eq!(far.read(5).await, b"whole");
    assert_eq!(fixture.proxy.until(TIMEOUT, |counts| counts.up.written == 5).await.unwrap().up.pieces, 1);
}
