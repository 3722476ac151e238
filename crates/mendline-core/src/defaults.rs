//! All default values, each with its reason.

use std::time::Duration;

// Deadlines

/// Deadline of a call, from its arrival or its last progress. A silent three-minute tool works without Mendline, so it
/// must work through it; a tool that is silent for five minutes is taken for lost.
/// Set by `timeouts.call`, `--call-timeout`; for one tool `tools.<name>.timeout`, `--tool-timeout`.
pub const CALL: Duration = Duration::from_secs(5 * 60);
/// The total timeout of a call, whatever progress it reports: endless progress is a hang with a heartbeat.
/// Set by `timeouts.total`, `--total-timeout`.
pub const TOTAL: Duration = Duration::from_secs(30 * 60);
/// The longest wait of a call for an upstream that is not up: below the 60 s at which common clients give up, so that
/// our answer comes before their timeout.
/// Set by `timeouts.recovery`, `--recovery-timeout`.
pub const RECOVERY: Duration = Duration::from_secs(45);
/// Timeout of the first handshake with a child: `npx` may have to download it.
/// Set by `timeouts.handshake`, `--handshake-timeout`.
pub const HANDSHAKE: Duration = Duration::from_secs(60);

/// The same over HTTP, where nothing has to be installed first.
/// Set by the same.
pub const HANDSHAKE_HTTP: Duration = Duration::from_secs(10);
/// The same for a server that has come up before: nothing is downloaded again, and a server that hangs is replaced.
/// Set by the same.
pub const HANDSHAKE_AGAIN: Duration = Duration::from_secs(10);
/// Handshakes without an answer in that time, after which a restarted server gets the time of a first start: it may be
/// slow rather than hang.
pub const MISSED_HANDSHAKES: u32 = 4;

// Streams over HTTP

/// Resumptions of a response stream since its last message: a server that accepts and closes for ever must not be asked
/// for ever.
/// Set by `resume.maxAttempts`, `--resume-attempts`.
pub const RESUME_ATTEMPTS: u32 = 10;
/// All resumptions of a response stream: a server that sends a message with each of them could ask for ever.
/// Set by `resume.maxTotal`, `--resume-total`.
pub const RESUME_TOTAL: u32 = 100;
/// The wait before a stream is resumed or reopened when the server names none.
pub const RESUME_WAIT: Duration = Duration::from_secs(1);
/// The shortest wait that a server may name: zero would be a busy loop.
pub const RESUME_WAIT_MIN: Duration = Duration::from_millis(100);
/// The longest wait that a server may name, so that a large value does not end the stream for good.
pub const RESUME_WAIT_MAX: Duration = Duration::from_secs(60);
/// The longest wait before the stream for notifications is reopened.
pub const NOTICES_CAP: Duration = Duration::from_secs(30);
/// The time that a POST has to end after its event stream is gone: its own end (a refusal, or a partial write) is
/// better evidence than the end of the stream.
pub const ORPHAN: Duration = Duration::from_secs(1);
/// The time that a server has to end the session.
pub const CLOSE_SESSION: Duration = Duration::from_secs(2);

/// The time that a call refused for its headers waits for a fresh list of the tools, per page. Without the list the
/// call is sent again anyway.
pub const LOOKUP: Duration = Duration::from_secs(5);
/// Pages of that list that are read: the list may be endless.
pub const LOOKUP_PAGES: u32 = 20;
/// The time without a byte after which a call is reported as silent, and a repeatable one over HTTP may be sent once
/// more: a request that a connection swallowed must not cost its whole deadline.
pub const SILENCE: Duration = Duration::from_secs(30);
/// The first interval between two pings for a silent call; it doubles.
pub const SILENCE_PING: Duration = Duration::from_secs(2);
/// The time after a change of the tools in which the client may list them; then Mendline does, to know their hints.
pub const HINTS_DELAY: Duration = Duration::from_secs(1);
/// The shortest interval between two such lists: a server may announce changes without end.
pub const HINTS_PAUSE: Duration = Duration::from_secs(10);
/// The time without another report of a changed list after which the list is read and compared.
pub const LIST_CHANGES: Duration = Duration::from_millis(500);
/// The longest time for which such reports are collected.
pub const LIST_CHANGES_MOST: Duration = Duration::from_secs(3);
/// The shortest time between a report without a change and the next comparison.
pub const LIST_CHANGES_PAUSE: Duration = Duration::from_secs(10);
/// The time for which entries may be missing before the list counts as changed: a server that has just started may
/// register its tools one after the other.
pub const LIST_HOLD: Duration = Duration::from_secs(5);
/// The interval at which a list with missing entries is read again.
pub const LIST_RECHECK: Duration = Duration::from_secs(1);

// Retries

/// Attempts per call, the first included: enough to hide short faults without adding load to an outage (SRE practice).
/// Set by `retry.maxAttempts`, `--max-attempts`.
pub const ATTEMPTS: u32 = 3;
/// The first backoff before a call is sent again to a server that is available; it doubles, with equal jitter. A retry
/// that comes at once meets the same fault.
/// Set by `retry.initialDelay`.
pub const RETRY_INITIAL: Duration = Duration::from_millis(500);
/// The longest such backoff.
/// Set by `retry.maxDelay`.
pub const RETRY_CAP: Duration = Duration::from_secs(5);
/// The capacity of an upstream's retry budget.
pub const BUDGET_BUCKET: u32 = 10;
/// Thousandths of a retry that each success earns: at most ten per cent extra load.
pub const BUDGET_PER_SUCCESS_MILLI: u32 = 100;
/// The time in which one retry is refilled, so that a quiet upstream can still retry.
pub const BUDGET_REGROWTH: Duration = Duration::from_secs(6);

// Breakers

/// Failures in a row that open a breaker: fewer may be coincidence, more let too many calls fail.
/// Set by `circuitBreaker.failureThreshold`, `--breaker-threshold`.
pub const BREAKER_FAILURES: u32 = 5;
/// The success rate below which a breaker opens …
pub const BREAKER_SUCCESS_RATE: f64 = 0.5;
/// … over this window: MCP calls are rare, a shorter window would be empty …
pub const BREAKER_WINDOW: Duration = Duration::from_secs(30);
/// … if it has at least this many calls: the rate of three calls says nothing.
pub const BREAKER_WINDOW_CALLS: u32 = 10;
/// The time that a breaker stays open at first: about a restart …
/// Set by `circuitBreaker.resetTimeout`, `--breaker-reset`.
pub const BREAKER_OPEN: Duration = Duration::from_secs(5);
/// … and, doubled each time, at most: a longer wait would delay the recovery.
pub const BREAKER_OPEN_CAP: Duration = Duration::from_secs(60);
/// The jitter of that time, so that many breakers do not close at once.
pub const BREAKER_JITTER: f64 = 0.2;
/// Answered trials that close a breaker: one may be luck.
pub const BREAKER_SUCCESSES: u32 = 2;
/// The retry hint for a call that is rejected during a trial. Most trials end within it.
pub const BREAKER_TRIAL_HINT: Duration = Duration::from_secs(1);
/// Tools of one server that have a breaker at a time: more than usually fail together, and names come from outside.
pub const TOOL_BREAKERS: usize = 64;
/// Characters of a tool's name that are kept.
pub const TOOL_NAME: usize = 200;

/// The shortest pause of an overloaded server. Without a hint the pause lies between this and its double, and grows.
pub const PAUSE_MIN: Duration = Duration::from_millis(250);
/// The time that a call should have left when it is sent after a pause: otherwise it takes the place of one that can
/// still be answered.
pub const TIME_FOR_ANSWER: Duration = Duration::from_secs(1);
/// The longest pause without a hint: the end of the overload is found soon.
pub const PAUSE_UNHINTED_CAP: Duration = Duration::from_millis(2400);
/// The longest pause that a server can request: a quota may take an hour, but one call checks earlier whether it does.
pub const PAUSE_CAP: Duration = Duration::from_secs(5 * 60);

// Reconnecting

/// The time within which the first redial comes: a quick repair, with jitter so that not all machines redial at once.
pub const RECONNECT_FIRST: Duration = Duration::from_millis(200);
/// The wait before the second redial; it doubles from there.
/// Set by `autoReconnect.initialRetryDelay`, `--initial-retry-delay`.
pub const RECONNECT_INITIAL: Duration = Duration::from_millis(200);
/// The factor by which each wait grows.
/// Set by `autoReconnect.backoffMultiplier`, `--backoff-multiplier`.
pub const RECONNECT_MULTIPLIER: f64 = 2.0;
/// The longest wait between redials while no call waits.
/// Set by `autoReconnect.maxRetryDelay`, `--max-retry-delay`.
pub const RECONNECT_CAP_IDLE: Duration = Duration::from_secs(30);
/// The longest wait between redials while a call waits, so that it goes on soon after the end of an outage.
pub const RECONNECT_CAP_CALLED: Duration = Duration::from_millis(2400);
/// The time after a client's start in which redials are as frequent as while a call waits: the client waits for its tools.
pub const CLIENT_START: Duration = Duration::from_secs(120);
/// Redials of one incident before an upstream is parked …
/// Set by `autoReconnect.maxRetries`, `--max-retries`.
pub const RECONNECT_ATTEMPTS: u32 = 10;
/// … and not before the incident is this old: a redeploy takes 30 to 90 seconds.
pub const RECONNECT_PATIENCE: Duration = Duration::from_secs(120);
/// The first delay with which a configured number of retries is paced when no delay is configured …
pub const MAX_RETRIES_DELAY: Duration = Duration::from_secs(2);
/// … and its factor.
pub const MAX_RETRIES_MULTIPLIER: f64 = 1.5;
/// The time for which an upstream must be ready, with at least one real answer, before an incident ends: an accepted
/// connection proves nothing.
pub const PROVEN: Duration = Duration::from_secs(10);
/// Exits of a child …
pub const CRASH_LOOP_EXITS: usize = 5;
/// … within this time that are a crash loop, which is restarted at the slowest pace.
pub const CRASH_LOOP_WINDOW: Duration = Duration::from_secs(60);
/// The interval at which a parked upstream is probed: no upstream is given up for good.
pub const PARKED_PROBE: Duration = Duration::from_secs(60);
/// The shortest interval at which calls wake a parked upstream.
pub const PARKED_COOL_DOWN: Duration = Duration::from_secs(10);
/// The limit of dials per minute under any policy.
pub const DIALS_PER_MINUTE: usize = 36;
/// Dials within a minute that the policy alone paces …
pub const DIAL_BURST: usize = 6;
/// … and the interval of the others, so that the minute's dials are not used up early.
pub const DIAL_PACE: Duration = Duration::from_secs(2);
/// The most that this interval is longer: an exact one could keep step with a network that comes and goes.
pub const DIAL_PACE_SPREAD: Duration = Duration::from_millis(400);

/// The time within which all upstreams are tried after a resume or a network change, with jitter.
pub const STAGGER: Duration = Duration::from_millis(500);

// Probes of the availability

/// The delay of the probe after the first failed call: calls that fail together share it.
pub const PROBE_DELAY: Duration = Duration::from_millis(25);
/// The shortest interval of two such probes.
pub const PROBE_PAUSE: Duration = Duration::from_secs(1);
/// The time that a server has to answer a probe.
pub const PROBE: Duration = Duration::from_secs(5);
/// The interval at which a server that has answered only its handshake is tested for an SSE stream.
pub const LOOK_PAUSE: Duration = Duration::from_secs(60);
/// The first interval at which a server that needs a login is probed; it doubles …
pub const LOGIN_PROBE: Duration = Duration::from_secs(2);
/// … up to this one: a person may log in at any time.
pub const LOGIN_PROBE_CAP: Duration = Duration::from_secs(5 * 60);
/// The interval after too many requests without a valid credential on one day; the next day or another credential ends
/// it.
pub const LOGIN_PROBE_LIMITED: Duration = Duration::from_secs(24 * 60 * 60);

// Idle servers

/// The silence after which an idle connection is tested: below the 60 s after which common proxies close it.
/// Set by `keepAlive.interval`, `--keep-alive`.
pub const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// The time that a server has to answer the test …
/// Set by `keepAlive.timeout`, `--keep-alive-timeout`.
pub const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// … and the number of missed tests in a row that end the link: one lost packet is not an outage.
pub const KEEP_ALIVE_MISSES: u32 = 2;
/// The pause between two tests, when the first was lost and not late.
pub const KEEP_ALIVE_PAUSE: Duration = Duration::from_secs(1);
// Sessions and children

/// Answers in a row that only report a dead connection, after which a child that is a bridge is replaced.
pub const DEAD_CONNECTION_ANSWERS: u32 = 3;
/// The step of the progress that Mendline reports while a call waits: it must grow, and stay below the server's next
/// value.
pub const OWN_PROGRESS_STEP: f64 = 1e-6;
/// Resource subscriptions that are kept for the next session.
pub const SUBSCRIPTIONS: usize = 1024;
/// The time that a server without a catalogue has to answer the first handshake, since only it knows its capabilities
/// and instructions: `npx` may have to download it, and clients wait 30 to 60 seconds.
pub const GRACE: Duration = Duration::from_secs(20);
/// The same for clients that wait only ten seconds (Codex).
pub const GRACE_IMPATIENT: Duration = Duration::from_secs(8);
/// The time from the first failure to the provisional answer: a short fault passes within it.
pub const GRACE_AFTER_FAILURE: Duration = Duration::from_secs(3);
/// The delay after the first change before the catalogue is saved: by then a client has read its first lists …
pub const CACHE_AFTER: Duration = Duration::from_secs(2);
/// … and the shortest interval between two saves: a server whose lists change all the time must not wear out a disk.
pub const CACHE_PAUSE: Duration = Duration::from_secs(30);
/// The size limit of one server's catalogue: the largest known lists have a few hundred kilobytes.
pub const CATALOGUE_BYTES: usize = 8 << 20;
/// The limit of answers in a catalogue.
pub const CATALOGUE_ENTRIES: usize = 512;
/// Restore requests (log level, subscriptions) in flight to a new session.
pub const RESTORES: usize = 8;
/// Internal requests in flight: the handshake, a ping, a lookup of the tools, four lists, and the restore requests.
pub const INTERNAL_REQUESTS: usize = 9 + RESTORES;
/// Pages of a list that are read to find out whether it has changed.
pub const LIST_PAGES: u32 = 64;

// Limits

/// Calls sent and unanswered per upstream.
/// Set by `limits.inFlight`, `--max-in-flight`.
pub const IN_FLIGHT: usize = 256;
/// Distinct tool names in events, per upstream: a client that invents names must not make metrics grow.
pub const TOOL_NAMES: usize = 512;
/// The longest tool name in events, in bytes.
pub const TOOL_NAME_BYTES: usize = 128;
/// Open subscription streams per upstream. They take no slot from calls, since they stay open; a client needs one, and
/// changes it by opening the next before it closes the last.
pub const SUBSCRIPTION_STREAMS: usize = 64;
/// Calls that wait for a slot or for the upstream: every queue is bounded.
/// Set by `limits.waiting`, `--max-waiting`.
pub const WAITING: usize = 1024;
/// Requests of a server that wait for the client's answer.
pub const SERVER_REQUESTS: usize = 256;
/// Messages queued for a server that does not read; beyond it notifications and answers are dropped and counted.
pub const LINK_QUEUE: usize = 2048;
/// Notifications and answers in flight to a server over HTTP, and as many cancellations beside them. Each is a
/// connection of its own over HTTP/1.1. A server accepts them at once, so a few are enough; the others wait in the
/// outbox.
pub const ONE_WAY_IN_FLIGHT: usize = 16;
/// Times that `initialized` is sent when its connection breaks: it may be repeated, and without it no call is sent.
pub const INITIALIZED_ATTEMPTS: u32 = 3;
/// The time that a server has to accept one of them: it has only to accept it.
pub const ONE_WAY: Duration = Duration::from_secs(30);
/// Connections to one server besides those of calls and subscriptions: notifications, answers, cancellations, internal
/// requests, the stream for notifications, the end of a session.
pub const CONNECTIONS_BESIDE_CALLS: usize = 64;
/// Messages queued for a client before the engine stops reading from a child that only this client uses.
pub const CLIENT_QUEUE_SOFT: usize = 256;
/// The same in bytes.
pub const CLIENT_QUEUE_SOFT_BYTES: usize = 8 << 20;
/// Messages queued for a client before the engine stops reading from the client, which writes and does not read.
pub const CLIENT_QUEUE_HARD: usize = 4096;
/// The same in bytes.
pub const CLIENT_QUEUE_HARD_BYTES: usize = 64 << 20;
/// Messages that a stream without a connection holds before it drops notifications.
pub const DETACHED_QUEUE: usize = 64;
/// The same in bytes.
pub const DETACHED_QUEUE_BYTES: usize = 256 << 10;
/// Messages that a stream with a connection holds before it drops notifications: four times what slows down a child.
pub const NOTIFICATION_QUEUE: usize = 1024;
/// The same in bytes.
pub const NOTIFICATION_QUEUE_BYTES: usize = 16 << 20;
/// Events of a session that are kept for a client that resumes its streams; the oldest go first.
pub const KEPT_EVENTS: usize = 1000;
/// The same in bytes.
pub const KEPT_BYTES: usize = 8 << 20;
/// The same for all sessions of a principal.
pub const KEPT_EVENTS_OF_PRINCIPAL: usize = 16_000;
/// The same in bytes.
pub const KEPT_BYTES_OF_PRINCIPAL: usize = 32 << 20;
/// The same for all principals.
pub const KEPT_BYTES_OF_ALL: usize = 64 << 20;
/// The memory budget: the bytes that wait in the engine and the unfinished messages that shells hold.
pub const LEDGER: usize = 256 << 20;

// Gateway

/// The time after which a process without a client ends: longer than a person reads between two questions, and short
/// enough that a closed editor does not hold a browser or a database open.
/// Set by `idle`.
pub const IDLE: Duration = Duration::from_secs(600);
/// Processes of one server. A client with roots needs one of its own; more than these are clients that never leave.
pub const PROCESSES: usize = 64;
/// Processes of one server that belong to one principal: it cannot keep the others out.
pub const PROCESSES_OF_PRINCIPAL: usize = 48;
/// The least time between two planned dials to a server that has several processes or sessions: 50 a second, which a
/// server that has just come back can take.
pub const SHARED_DIAL_PACE: Duration = Duration::from_millis(20);
/// Sessions with one server over HTTP: each costs a few KiB here, and a table entry there.
pub const SESSIONS: usize = 16_384;
/// Sessions with one server over HTTP that belong to one principal.
pub const SESSIONS_OF_PRINCIPAL: usize = 12_288;
/// The time without a request after which a session of a principal at its limit makes room for another.
pub const EVICTED_AFTER: Duration = Duration::from_secs(60);
/// The time after which a session ends whose client cannot resume its stream, or does not use the id of the session.
pub const SHORT_IDLE: Duration = Duration::from_secs(60);
/// Requests of one principal that wait for their answers: a client that loops cannot fill the queues of all servers,
/// and two thousand agents with one call each still fit.
/// Set by `access.tokens[].inFlight`.
pub const PRINCIPAL_IN_FLIGHT: u32 = 2048;
/// Open connections of the gateway: each costs a descriptor and some memory. Further ones are answered with 503.
/// Set by `access.limits.connections`.
pub const GATEWAY_CONNECTIONS: usize = 8192;
/// Sessions of one principal. Beyond it the session that was idle for the longest time goes; its id opens it again.
/// Set by `access.limits.sessions`.
pub const GATEWAY_SESSIONS: usize = 16_384;
/// The time for a TLS handshake: three round trips of a slow line.
pub const GATEWAY_HANDSHAKE: Duration = Duration::from_secs(10);
/// The time for the head of a request, and between two requests of a connection: a client that sends one byte per
/// second must not hold it.
pub const GATEWAY_HEAD: Duration = Duration::from_secs(30);
/// Bytes of the head of a request: eight times what common proxies pass on.
pub const GATEWAY_HEAD_BYTES: usize = 64 * 1024;
/// Headers of a request: a client has about ten, a proxy adds some.
pub const GATEWAY_HEADERS: usize = 100;
/// Requests at a time on one connection of HTTP/2.
pub const GATEWAY_H2_STREAMS: u32 = 256;
/// The time that a client has for the body of a request …
pub const GATEWAY_BODY: Duration = Duration::from_secs(30);
/// … and a second more for each of these bytes: a slow line may send a large message, one byte per second may not.
pub const GATEWAY_BODY_RATE: usize = 4 * 1024;
/// The time for which a response may wait for a client that does not read …
pub const GATEWAY_STALL: Duration = Duration::from_secs(60);
/// … anew with each of these bytes that the client has taken.
pub const GATEWAY_STALL_BYTES: usize = 64 * 1024;

// Shutdown

/// The time that running calls have to finish after a request to stop.
pub const DRAIN: Duration = Duration::from_secs(10);
/// The time that a child has to exit after EOF on its stdin, and again after TERM: the specification's order, the SDKs'
/// timing.
pub const SHUTDOWN_STEP: Duration = Duration::from_secs(2);
/// The time that a client has to read the final messages.
pub const FINAL_WRITE: Duration = Duration::from_secs(1);

// Texts

/// Bytes kept of a client's name: enough to recognise it.
pub const CLIENT_NAME: usize = 64;
/// Pings sent to confirm the loss of a session: a second one only if a broken connection took the first.
pub const CONFIRMATIONS: u32 = 2;
/// Bytes of a body that is not JSON-RPC in which the first words are searched: the title of an HTML page is near its
/// beginning.
pub const PAGE_BYTES: usize = 4 * 1024;
/// Characters of these words: enough for the reason that a proxy or a server gives, not for a page.
pub const PAGE_WORDS: usize = 120;
/// How often it is reported that a server is still parked: its probes fail all the time.
pub const PARKED_REPORT: Duration = Duration::from_secs(3600);
/// Lines of a child's stderr that are kept for errors and status.
pub const STDERR_TAIL: usize = 32;
/// Lines of these that are quoted when none of them explains why the child ended.
pub const STDERR_QUOTED: usize = 3;
/// Bytes kept of each.
pub const STDERR_LINE: usize = 300;
/// Bytes quoted of any other text of a server: enough for a sentence.
pub const QUOTED: usize = 200;
