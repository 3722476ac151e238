use std::collections::VecDeque;
use std::time::UNIX_EPOCH;

use mendline_core::Secret;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::*;

const NOTES: UpstreamId = UpstreamId(3);

/// The behaviour of one read.
enum Read {
    Gives(Result<Option<Credential>, CredentialError>),
    Hangs,
    Panics,
}

/// A source that is played by the test.
struct FakeSource {
    reads: Reads,
    occasions: UnboundedSender<String>,
    changes: UnboundedReceiver<()>,
}

impl CredentialSource for FakeSource {
    fn read<'a>(&'a mut self, occasion: &'a Occasion) -> SourceFuture<'a, Result<Option<Credential>, CredentialError>> {
        let name = match occasion {
            Occasion::Refused { challenges } => format!("Refused {}", challenges.len()),
            other => format!("{other:?}"),
        };
        // A test that does not look at the occasions has dropped the other end.
        let _ = self.occasions.send(name);
        let next = self.reads.lock().unwrap().pop_front();
        match next.expect("an unexpected read") {
            Read::Gives(result) => Box::pin(std::future::ready(result)),
            Read::Hangs => Box::pin(std::future::pending()),
            Read::Panics => Box::pin(async { panic!("a defect of a source") }),
        }
    }

    fn changed(&mut self) -> SourceFuture<'_, ()> {
        Box::pin(async {
            if self.changes.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
        })
    }
}

/// A running keeper, on paused time.
struct Stage {
    handle: KeeperHandle,
    next_source: NextSource,
    inputs: Arc<InputQueue>,
    redactor: Redactor,
    reads: Reads,
    occasions: UnboundedReceiver<String>,
    changes: UnboundedSender<()>,
    task: JoinHandle<()>,
}

fn token(text: &str) -> Credential {
    Credential::bearer(&Secret::new(text))
}

fn gives(text: &str) -> Read {
    Read::Gives(Ok(Some(token(text))))
}

fn unavailable() -> Read {
    Read::Gives(Err(CredentialError::Unavailable { why: "it is down; token=hunter2-hunter2".to_owned() }))
}

fn noon() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

type Reads = Arc<Mutex<VecDeque<Read>>>;

fn fake(reads: Vec<Read>) -> (FakeSource, Reads, UnboundedReceiver<String>, UnboundedSender<()>) {
    let reads = Arc::new(Mutex::new(VecDeque::from(reads)));
    let (occasions, heard) = unbounded_channel();
    let (changes, changed) = unbounded_channel();
    (FakeSource { reads: Arc::clone(&reads), occasions, changes: changed }, reads, heard, changes)
}

fn stage(first: Vec<Read>) -> Stage {
    let (source, reads, occasions, changes) = fake(first);
    let (inputs, redactor, next_source) = (Arc::<InputQueue>::default(), Redactor::default(), NextSource::default());
    let source: Option<Box<dyn CredentialSource>> = Some(Box::new(source));
    let (mut keeper, handle) = Keeper::new(NOTES, source, next_source.clone(), redactor.clone(), Arc::clone(&inputs));
    let begin = Instant::now();
    keeper.wall_clock = Box::new(move || noon() + begin.elapsed());
    let task = tokio::spawn(keeper.run());
    Stage { handle, next_source, inputs, redactor, reads, occasions, changes, task }
}

impl Stage {
    fn then(&self, read: Read) {
        self.reads.lock().unwrap().push_back(read);
    }

    async fn occasion(&mut self) -> String {
        self.occasions.recv().await.unwrap()
    }

    /// Waits for the next input of the engine.
    async fn input(&self) -> String {
        let input = poll_fn(|cx| self.inputs.poll(cx)).await;
        match input {
            Input::CredentialChanged { upstream, number } => format!("{} changed {number}", upstream.0),
            Input::CredentialFailed { upstream, why } => format!("{} failed {why}", upstream.0),
            other => panic!("{other:?}"),
        }
    }

    fn sent(&self) -> Option<String> {
        let headers = self.handle.cell().headers()?;
        Some(headers.headers[0].1.to_str().unwrap().to_owned())
    }
}

#[tokio::test(start_paused = true)]
async fn source_is_read_at_start_and_after_refusal() {
    let mut stage = stage(vec![gives("first-token")]);
    assert!(stage.handle.cell().is_awaited(), "a transport waits for the first credential");
    assert_eq!(stage.input().await, "3 changed 1");
    assert!(!stage.handle.cell().is_awaited());
    assert_eq!(stage.sent().as_deref(), Some("Bearer first-token"));
    assert_eq!(stage.redactor.redact(b"x first-token y").as_ref(), "x ‹secret› y".as_bytes());
    stage.then(gives("second-token"));
    stage.handle.cell().note_challenges(vec![crate::transport::http::Challenge::default()]);
    stage.handle.renew(1, Challenge::Credential);
    assert_eq!(stage.input().await, "3 changed 2");
    assert_eq!((stage.occasion().await, stage.occasion().await), ("Start".to_owned(), "Refused 1".to_owned()));
    drop(stage.handle);
    stage.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn same_credential_after_refusal_is_a_failure() {
    let stage = stage(vec![gives("token"), gives("token")]);
    assert_eq!(stage.input().await, "3 changed 1");
    stage.handle.renew(1, Challenge::Credential);
    assert_eq!(stage.input().await, format!("3 failed {}", CredentialError::Unchanged));
    stage.then(gives("token"));
    let scope = crate::transport::http::Challenge::parse("Bearer error=\"insufficient_scope\", scope=\"notes:write\"");
    stage.handle.cell().note_challenges(scope);
    stage.handle.renew(1, Challenge::Scope);
    assert_eq!(stage.input().await, "3 failed the login lacks permissions: notes:write");
}

#[tokio::test(start_paused = true)]
async fn refusal_of_older_credential_is_answered_without_a_read() {
    let stage = stage(vec![gives("token")]);
    assert_eq!(stage.input().await, "3 changed 1");
    stage.handle.renew(0, Challenge::Credential);
    assert_eq!(stage.input().await, "3 changed 1");
}

#[tokio::test(start_paused = true)]
async fn failure_that_can_pass_is_repeated_until_success() {
    let mut stage = stage(vec![gives("token")]);
    assert_eq!(stage.input().await, "3 changed 1");
    let begin = Instant::now();
    for _ in 0..4 {
        stage.then(unavailable());
    }
    stage.then(gives("newer"));
    stage.handle.renew(1, Challenge::Credential);
    let failure = stage.input().await;
    assert!(failure.contains("it is down") && !failure.contains("hunter2"), "{failure}");
    assert_eq!(stage.input().await, "3 changed 2");
    let waited = begin.elapsed().as_secs_f64();
    assert!((30.0..=38.0).contains(&waited), "2 + 4 + 8 + 16 s with jitter: {waited}");
    for occasion in ["Start", "Refused 0", "Refused 0"] {
        assert_eq!(stage.occasion().await, occasion);
    }
}

#[tokio::test(start_paused = true)]
async fn network_change_ends_backoff() {
    let stage = stage(vec![gives("token"), unavailable(), gives("newer")]);
    assert_eq!(stage.input().await, "3 changed 1");
    stage.handle.renew(1, Challenge::Credential);
    assert!(stage.input().await.contains("it is down"));
    let begin = Instant::now();
    stage.handle.check_again(noon());
    assert_eq!(stage.input().await, "3 changed 2");
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn failure_that_cannot_pass_waits_for_a_change() {
    let no_file = || CredentialError::File { path: "/x".to_owned(), why: "there is no such file".to_owned() };
    let mut stage = stage(vec![Read::Gives(Err(no_file())), Read::Gives(Err(no_file()))]);
    assert_eq!(stage.occasion().await, "Start");
    stage.handle.renew(0, Challenge::Credential);
    assert_eq!(stage.input().await, "3 failed the file /x cannot be used: there is no such file");
    assert_eq!(stage.occasion().await, "Refused 0");
    let later = timeout(Duration::from_secs(86_400), stage.input()).await;
    assert!(later.is_err(), "{later:?}");
    stage.then(gives("token"));
    stage.changes.send(()).unwrap();
    assert_eq!(stage.input().await, "3 changed 1");
    assert_eq!(stage.occasion().await, "Changed");
}

#[tokio::test(start_paused = true)]
async fn source_without_credential_is_no_failure_until_refused() {
    let mut stage = stage(vec![Read::Gives(Ok(None)), Read::Gives(Ok(None))]);
    assert_eq!(stage.occasion().await, "Start");
    stage.handle.renew(0, Challenge::Credential);
    assert_eq!(stage.input().await, "3 failed there is no login yet");
    stage.then(gives("token"));
    stage.changes.send(()).unwrap();
    assert_eq!(stage.input().await, "3 changed 1");
    stage.then(Read::Gives(Ok(None)));
    stage.changes.send(()).unwrap();
    assert_eq!(stage.input().await, "3 changed 2");
    assert_eq!(stage.sent(), None, "after a logout");
}

#[tokio::test(start_paused = true)]
async fn credential_is_renewed_before_it_expires() {
    let hour = Duration::from_secs(3600);
    let expiring = |text: &str, at| Read::Gives(Ok(Some(token(text).expires_at(Some(at)))));
    let mut stage = stage(vec![expiring("one", noon() + hour), unavailable(), expiring("two", noon() + 2 * hour)]);
    assert_eq!(stage.input().await, "3 changed 1");
    assert_eq!(stage.input().await, "3 changed 2");
    for occasion in ["Start", "Expiring", "Expiring"] {
        assert_eq!(stage.occasion().await, occasion);
    }
    assert_eq!(stage.sent().as_deref(), Some("Bearer two"));
}

#[tokio::test(start_paused = true)]
async fn expiry_is_compared_with_the_clock_after_a_sleep() {
    let (source, _, _, _changes) = fake(vec![
        Read::Gives(Ok(Some(token("one").expires_at(Some(noon() + Duration::from_secs(86_400)))))),
        gives("two"),
    ]);
    let inputs = Arc::<InputQueue>::default();
    let (mut keeper, handle) =
        Keeper::new(NOTES, Some(Box::new(source)), NextSource::default(), Redactor::default(), Arc::clone(&inputs));
    let jump = Arc::new(Mutex::new(Duration::ZERO));
    let clock = Arc::clone(&jump);
    keeper.wall_clock = Box::new(move || noon() + *clock.lock().unwrap());
    tokio::spawn(keeper.run());
    let next = || poll_fn(|cx| inputs.poll(cx));
    assert!(matches!(next().await, Input::CredentialChanged { number: 1, .. }));
    *jump.lock().unwrap() = Duration::from_secs(90_000);
    let begin = Instant::now();
    handle.check_again(noon());
    assert!(matches!(next().await, Input::CredentialChanged { number: 2, .. }));
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a80_source_that_hangs_or_panics_is_a_failure_that_can_pass() {
    let stage = stage(vec![Read::Hangs]);
    stage.then(Read::Panics);
    stage.then(gives("token"));
    stage.handle.renew(0, Challenge::Credential);
    let begin = Instant::now();
    let failure = stage.input().await;
    assert!(failure.contains("please report this defect"), "{failure}");
    assert_eq!(begin.elapsed(), READ_LIMIT, "the first read");
    assert_eq!(stage.input().await, "3 changed 1");
}

#[tokio::test(start_paused = true)]
async fn next_source_replaces_credential_of_former_one() {
    let stage = stage(vec![gives("token")]);
    assert_eq!(stage.input().await, "3 changed 1");
    stage.handle.replace_source();
    assert_eq!(stage.sent().as_deref(), Some("Bearer token"), "there is no next source");
    let (source, _, _, _changes) = fake(vec![gives("other")]);
    stage.next_source.put(Some(Box::new(source)));
    stage.handle.replace_source();
    assert!(stage.sent().is_none() && stage.handle.cell().is_awaited());
    assert_eq!(stage.input().await, "3 changed 2");
    assert_eq!(stage.sent().as_deref(), Some("Bearer other"));
    stage.next_source.put(None);
    stage.handle.replace_source();
    assert!(stage.sent().is_none() && !stage.handle.cell().is_awaited());
}

#[tokio::test(start_paused = true)]
async fn endless_changes_cause_few_reads() {
    let mut stage = stage((0..100).map(|_| gives("token")).collect());
    for _ in 0..1000 {
        stage.changes.send(()).unwrap();
    }
    let begin = Instant::now();
    for _ in 0..21 {
        stage.occasion().await;
    }
    assert!(begin.elapsed() >= Duration::from_secs(4), "{:?}", begin.elapsed());
}

/// A source without a login, which passes on the counts of fruitless requests.
struct NoLogin {
    counts: UnboundedSender<u32>,
}

impl CredentialSource for NoLogin {
    fn read<'a>(&'a mut self, _: &'a Occasion) -> SourceFuture<'a, Result<Option<Credential>, CredentialError>> {
        Box::pin(async { Err(CredentialError::NoLogin) })
    }

    fn note_fruitless(&mut self, count: u32) -> SourceFuture<'_, ()> {
        let _ = self.counts.send(count);
        Box::pin(std::future::ready(()))
    }

    fn changed(&mut self) -> SourceFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_without_a_newer_credential_are_counted() {
    let (counts, mut counted) = unbounded_channel();
    let inputs = Arc::<InputQueue>::default();
    let source = Some(Box::new(NoLogin { counts }) as Box<dyn CredentialSource>);
    let handle = Keeper::start(NOTES, source, NextSource::default(), Redactor::default(), Arc::clone(&inputs));
    let refuse = || handle.cell().note_challenges(Vec::new());
    // Thirty calls are refused together, and one renewal answers all of them.
    (0..30).for_each(|_| refuse());
    handle.renew(0, Challenge::Credential);
    assert_eq!(counted.recv().await, Some(1));
    refuse();
    assert_eq!(counted.recv().await, Some(1), "a probe");
    refuse();
    refuse();
    assert_eq!(counted.recv().await, Some(2));
}
