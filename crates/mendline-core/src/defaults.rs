//! Every number that Mendline uses when nobody says otherwise, each with its reason.

use std::time::Duration;

// Deadlines

/// Deadline of a call, from its arrival or its last progress: a silent three-minute tool works directly, so it must work
/// through us; what is silent for five minutes is lost.
/// Set by `timeouts.call`, `--call-timeout`; for one tool `tools.<name>.timeout`, `--tool-timeout`.
pub const CALL: Duration = Duration::from_secs(5 * 60);
/// The hard end of a call, whatever progress it reports: progress for ever is a hang with a heartbeat.
/// Set by `timeouts.total`, `--total-timeout`.
pub const TOTAL: Duration = Duration::from_secs(30 * 60);
/// How long a call waits for an upstream that is not up: below the 60 s at which common clients give up, so that our answer
/// wins over their timeout.
/// Set by `timeouts.recovery`, `--recovery-timeout`.
pub const RECOVERY: Duration = Duration::from_secs(45);
/// How long a child may take to answer the handshake that we replay: `npx` may have to download it.
/// Set by `timeouts.handshake`, `--handshake-timeout`.
pub const HANDSHAKE: Duration = Duration::from_secs(60);

/// The same over HTTP, where nothing has to be installed first.
/// Set by the same.
pub const HANDSHAKE_HTTP: Duration = Duration::from_secs(10);

// Streams over HTTP

/// A response stream that ended early is resumed at most this often since its last message: a server that accepts and
/// closes for ever must not be asked for ever.
/// Set by `resume.maxAttempts`, `--resume-attempts`.
pub const RESUME_ATTEMPTS: u32 = 10;
/// The wait before a stream is resumed or opened again when the server names none.
pub const RESUME_WAIT: Duration = Duration::from_secs(1);
/// The shortest wait that a server may name: zero would be a loop without a pause.
pub const RESUME_WAIT_MIN: Duration = Duration::from_millis(100);
/// The longest: nobody sleeps for a week because a server said so.
pub const RESUME_WAIT_MAX: Duration = Duration::from_secs(60);
/// The longest wait before the stream for notices is opened again.
pub const NOTICES_CAP: Duration = Duration::from_secs(30);
/// How long a POST whose event stream is gone may take to end by itself: what it brings (a refusal, or that it never got
/// there whole) says more than the end of the stream did.
pub const ORPHAN: Duration = Duration::from_secs(1);
/// How long a server has to take the end of the session.
pub const CLOSE_SESSION: Duration = Duration::from_secs(2);

/// How long a call that was refused for its headers waits for a fresh list of the tools, per page: without it the call goes
/// out again all the same.
pub const LOOKUP: Duration = Duration::from_secs(5);
/// How many pages of that list are read: a list without end must not be one for us.
pub const LOOKUP_PAGES: u32 = 20;

// Retries

/// Attempts per call, the first included: what SRE practice found to mask blips without feeding an outage.
/// Set by `retry.maxAttempts`, `--max-attempts`.
pub const ATTEMPTS: u32 = 3;
/// First delay before a call is sent again on a link that stayed up; doubles, with full jitter.
/// Set by `retry.initialDelay`.
pub const RETRY_INITIAL: Duration = Duration::from_millis(100);
/// The longest such delay.
/// Set by `retry.maxDelay`.
pub const RETRY_CAP: Duration = Duration::from_secs(5);
/// Retries that an upstream may save up.
pub const BUDGET_BUCKET: u32 = 10;
/// Each success earns this many thousandths of a retry: at most ten per cent extra load when it matters.
pub const BUDGET_PER_SUCCESS_MILLI: u32 = 100;
/// One retry grows back in this time, so that a quiet upstream can still retry.
pub const BUDGET_REGROWTH: Duration = Duration::from_secs(6);

// Breakers

/// So many failures in a row open a breaker: fewer would be chance, more would be a crowd of calls that fail one by one.
/// Set by `circuitBreaker.failureThreshold`, `--breaker-threshold`.
pub const BREAKER_FAILURES: u32 = 5;
/// Or fewer successes than this share of the calls …
pub const BREAKER_SUCCESS_RATE: f64 = 0.5;
/// … of the last so many seconds: MCP's calls come seldom, a shorter time would hold none …
pub const BREAKER_WINDOW: Duration = Duration::from_secs(30);
/// … if there were at least so many: a share of three calls says nothing.
pub const BREAKER_WINDOW_CALLS: u32 = 10;
/// How long a breaker stays open the first time: about a restart …
/// Set by `circuitBreaker.resetTimeout`, `--breaker-reset`.
pub const BREAKER_OPEN: Duration = Duration::from_secs(5);
/// … and, twice as long each time, at most: nobody waits longer for a server that is well again.
pub const BREAKER_OPEN_CAP: Duration = Duration::from_secs(60);
/// By how much that is more or less, by chance, so that many breakers do not close at once.
pub const BREAKER_JITTER: f64 = 0.2;
/// So many answered calls close it: one may have been luck.
pub const BREAKER_SUCCESSES: u32 = 2;
/// What a caller is told who comes while another one tries: a moment. Most trials are over by then.
pub const BREAKER_TRIAL_HINT: Duration = Duration::from_secs(1);
/// Tools of one server that have a breaker at a time: more than ever fail together, and names come from outside.
pub const TOOL_BREAKERS: usize = 64;
/// How much of a tool's name is remembered, in characters.
pub const TOOL_NAME: usize = 200;

/// The longest that a server is left alone because it said so: a quota may take an hour to come back, but nobody knows
/// whether the hour is meant until one call looks.
pub const PAUSE_CAP: Duration = Duration::from_secs(5 * 60);

// Reconnecting

/// The first redial comes within this time: a quick first repair, yet never two machines at once.
pub const RECONNECT_FIRST: Duration = Duration::from_millis(200);
/// The second redial waits about this long; doubles from there.
/// Set by `autoReconnect.initialRetryDelay`, `--initial-retry-delay`.
pub const RECONNECT_INITIAL: Duration = Duration::from_millis(200);
/// Each wait is this many times longer than the one before.
/// Set by `autoReconnect.backoffMultiplier`, `--backoff-multiplier`.
pub const RECONNECT_MULTIPLIER: f64 = 2.0;
/// The longest wait between redials while nobody calls.
/// Set by `autoReconnect.maxRetryDelay`, `--max-retry-delay`.
pub const RECONNECT_CAP_IDLE: Duration = Duration::from_secs(30);
/// The longest wait between redials while a call waits.
pub const RECONNECT_CAP_CALLED: Duration = Duration::from_secs(5);
/// Redials of one incident before an upstream is parked …
/// Set by `autoReconnect.maxRetries`, `--max-retries`.
pub const RECONNECT_ATTEMPTS: u32 = 10;
/// … and not before the incident is this old: a redeploy takes 30 to 90 seconds.
pub const RECONNECT_PATIENCE: Duration = Duration::from_secs(120);
/// An incident is over after this long ready *and* one real answer; an accepted connection proves nothing.
pub const PROVEN: Duration = Duration::from_secs(10);
/// This many exits of a child …
pub const CRASH_LOOP_EXITS: usize = 5;
/// … within this time are a crash loop, and park it.
pub const CRASH_LOOP_WINDOW: Duration = Duration::from_secs(60);
/// A parked upstream is tried this often by itself: never dead for good.
pub const PARKED_PROBE: Duration = Duration::from_secs(60);
/// A call wakes a parked upstream, at most this often: never a storm.
pub const PARKED_COOL_DOWN: Duration = Duration::from_secs(10);
/// No policy may dial more often than this per minute.
pub const DIALS_PER_MINUTE: usize = 30;
/// So many dials within a minute may follow each other as quickly as a policy likes …
pub const DIAL_BURST: usize = 10;
/// … and the rest of them are spread over that minute, so that there is always a next one soon.
pub const DIAL_PACE: Duration = Duration::from_secs(3);

/// After a sleep, or when the network has changed, every upstream is tried within this time, not all at once.
pub const STAGGER: Duration = Duration::from_millis(500);

// Idle servers

/// A line that has been silent for this long is tested: below the 60 s after which common proxies cut it.
/// Set by `keepAlive.interval`, `--keep-alive`.
pub const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// How long a server has to answer the test …
/// Set by `keepAlive.timeout`, `--keep-alive-timeout`.
pub const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// … and how often in a row it may fail to: one lost packet is not an outage.
pub const KEEP_ALIVE_MISSES: u32 = 2;
/// The pause between two of them, when the first was lost rather than late.
pub const KEEP_ALIVE_PAUSE: Duration = Duration::from_secs(1);
// Sessions and children

/// So many answers in a row that only say that a connection is gone mean that the child, a bridge itself, will not mend it.
pub const DEAD_CONNECTION_ANSWERS: u32 = 3;
/// By how much progress grows that we report ourselves while a call waits: it must grow, and must not get in the server's way.
pub const OWN_PROGRESS_STEP: f64 = 1e-6;
/// Resources whose subscription is kept for the next session.
pub const SUBSCRIPTIONS: usize = 1024;
/// With nothing known of a server, it has this long to answer the first handshake itself, since only it knows its
/// capabilities and its instructions: most servers need less, and clients that hurry give up after five seconds.
pub const GRACE: Duration = Duration::from_secs(3);
/// After that a list waits for the server for this long: many clients ask only once, and give up after thirty seconds.
pub const LISTS: Duration = Duration::from_secs(20);
/// So long after the first news the catalogue is kept: by then a client has read what it reads at its beginning …
pub const CACHE_AFTER: Duration = Duration::from_secs(2);
/// … and this long after the last time at the earliest: a server whose lists change all the time must not wear out a disk.
pub const CACHE_PAUSE: Duration = Duration::from_secs(30);
/// The largest catalogue of one server: the largest lists in the wild have a few hundred kilobytes.
pub const CATALOGUE_BYTES: usize = 8 << 20;
/// The most answers in it.
pub const CATALOGUE_ENTRIES: usize = 512;
/// How many things a new session is told at once of what the last one knew.
pub const RESTORES: usize = 8;
/// Internal requests of our own that are under way at once at most: the handshake, a ping, a look at the tools, four lists, and what is restored.
pub const INTERNAL_REQUESTS: usize = 7 + RESTORES;
/// Pages of a list that are read to find out whether it has changed.
pub const LIST_PAGES: u32 = 64;

// Limits

/// Calls sent and unanswered per upstream.
/// Set by `limits.inFlight`, `--max-in-flight`.
pub const IN_FLIGHT: usize = 256;
/// Distinct tool names in events, per upstream: a client that makes names up must not make metrics grow.
pub const TOOL_NAMES: usize = 512;
/// The longest tool name in events, in bytes.
pub const TOOL_NAME_BYTES: usize = 128;
/// Subscriptions that listen at a time, per upstream. They stay open for as long as somebody wants them, so they take no place
/// from calls; a client needs one, and changes it by opening the next before it ends the last.
pub const LISTENS: usize = 64;
/// Calls that wait for a place or for the upstream: every queue has an end.
/// Set by `limits.waiting`, `--max-waiting`.
pub const WAITING: usize = 1024;
/// Requests of a server that wait for the client's answer.
pub const SERVER_REQUESTS: usize = 256;
/// Messages queued for a server that does not read; beyond it notifications and answers are dropped and counted.
pub const LINK_QUEUE: usize = 2048;
/// Notifications and answers to a server that are posted at a time over HTTP, and as many cancellations beside them. Each is
/// a connection of its own over HTTP/1.1; a server takes them at once, so that a few are enough, and one that asks without
/// end must not make us open connections without end. The rest waits in the queue that a child's would.
pub const ONE_WAY_IN_FLIGHT: usize = 16;
/// How long a server may take to accept one of them: it has nothing to do for it but to take it.
pub const ONE_WAY: Duration = Duration::from_secs(30);
/// Connections to one server that carry something else than calls and subscriptions: notifications, answers, cancellations,
/// internal requests, the stream for notices, the end of a session.
pub const CONNECTIONS_BESIDE_CALLS: usize = 64;
/// Messages queued for a client before we stop reading from a child that only this client uses.
pub const CLIENT_QUEUE_SOFT: usize = 256;
/// The same in bytes.
pub const CLIENT_QUEUE_SOFT_BYTES: usize = 8 << 20;
/// Messages queued for a client before we stop reading from the client itself: it writes and does not read.
pub const CLIENT_QUEUE_HARD: usize = 4096;
/// The same in bytes.
pub const CLIENT_QUEUE_HARD_BYTES: usize = 64 << 20;
/// All bytes that are held for others, together: what waits in the engine, and what shells hold of unfinished answers.
pub const LEDGER: usize = 256 << 20;

// The end

/// How long running calls may take to finish once we are told to stop.
pub const DRAIN: Duration = Duration::from_secs(10);
/// How long a child has to end after its stdin was closed, and again after TERM: the specification's order, the SDKs' timing.
pub const SHUTDOWN_STEP: Duration = Duration::from_secs(2);
/// How long a client has to take our stderr tail.
pub const FINAL_WRITE: Duration = Duration::from_secs(1);

// What people are shown

/// Bytes kept of a client's name: enough to know it by.
pub const CLIENT_NAME: usize = 64;
/// Pings that are sent to confirm that a session is lost: a second one only if a broken connection took the first.
pub const CONFIRMATIONS: u32 = 2;
/// Bytes of a body that is not JSON-RPC in which the words for an error are looked for: the title of an HTML page is near its
/// beginning.
pub const PAGE_BYTES: usize = 4 * 1024;
/// Characters of these words: enough for the reason that a proxy or a server gives, not for a page.
pub const PAGE_WORDS: usize = 120;
/// Lines of a child's stderr that are kept for errors and status.
pub const STDERR_TAIL: usize = 8;
/// Bytes kept of each.
pub const STDERR_LINE: usize = 300;
/// How many bytes of any other text of a server are quoted: enough for a sentence.
pub const QUOTED: usize = 200;
