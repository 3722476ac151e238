//! One cell from start to end: the server, `mendline run`, the outage, and the calls of the situation.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::cell::{Cell, Situation};
use crate::client::{Client, WARM_UP};
use crate::form::Form;
use crate::judge;
use crate::observed::Observed;
use crate::site::Site;
use crate::syn_counter::SynCounter;
/// The time after the beginning of the outage at which the first call is issued.
const SOON: Duration = Duration::from_millis(100);
/// The time for which an agent calls before the outage.
const AGENT_BEFORE: Duration = Duration::from_secs(1);
/// The interval of the reads that look for the end of the outage.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// The number of these reads.
const LOOKS: usize = 30;
/// The number of reads, and of unsafe calls, in flight.
const MANY: usize = 32;
/// The time for which a late answer is still awaited, so that it is not taken for a missing one.
const GRACE: Duration = Duration::from_secs(8);
/// The deadline of calls behind a silent server, which end in no other way: longer than every limit of a read.
const SILENT_CALL_TIMEOUT: &str = "45s";

/// The environment of all cells.
pub(crate) struct Stage {
    pub(crate) mendline: PathBuf,
    /// The folder with one folder per cell.
    pub(crate) folder: PathBuf,
    pub(crate) counter: Option<SynCounter>,
    pub(crate) lists: RefCell<Lists>,
}

/// The number of answers to `tools/list` by server and SHA-256.
pub(crate) type Lists = BTreeMap<&'static str, BTreeMap<String, usize>>;

impl Stage {
    pub(crate) fn note_lists(&self, cell: &Cell, observed: &Observed) {
        let server = if cell.form.is_command() { "the command" } else { "the server over HTTP" };
        let mut lists = self.lists.borrow_mut();
        for digest in observed.lists() {
            *lists.entry(server).or_default().entry(digest.to_owned()).or_default() += 1;
        }
    }
}

/// Plays a cell and returns its facts.
pub(crate) async fn play(cell: &Cell, stage: &Stage) -> Result<Observed, String> {
    let folder = stage.folder.join(cell.name().replace('/', "-"));
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    }
    fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let site = Site::start(cell, &folder).await?;
    let epoch = Instant::now();
    let played = Played { cell, stage, site: &site, folder: &folder, epoch };
    let (client, mut observed) = match cell.situation {
        Situation::FirstStart => played.start_during_outage().await?,
        Situation::SecondStart => {
            played.run_once().await?;
            played.start_during_outage().await?
        }
        _ => played.outage_during_run().await?,
    };
    let ended = client.end().await;
    observed.calls = ended.calls;
    observed.strays = ended.strays;
    observed.exit_code = ended.exit_code;
    observed.list_changes = ended.list_changes;
    site.report(epoch, stage.counter.as_ref(), &mut observed);
    Ok(observed)
}

/// A cell that is being played.
struct Played<'a> {
    cell: &'a Cell,
    stage: &'a Stage,
    site: &'a Site,
    folder: &'a Path,
    epoch: Instant,
}

impl Played<'_> {
    fn client(&self) -> Result<Client, String> {
        let target = self.site.target()?;
        let mut arguments = Vec::new();
        if self.cell.form == Form::Silence {
            arguments.extend(["--call-timeout".to_owned(), SILENT_CALL_TIMEOUT.to_owned()]);
        }
        arguments.extend(target.arguments);
        Client::start(&self.stage.mendline, &arguments, self.folder, &target.environment, self.epoch)
    }

    /// Starts a client and lets it do everything once: handshake, list, read.
    async fn warm_client(&self, name: &'static str) -> Result<Client, String> {
        let mut client = self.client()?.named(name);
        client.warm_up().await?;
        Ok(client)
    }

    /// A complete run before the outage, which leaves its catalogue.
    async fn run_once(&self) -> Result<(), String> {
        let ended = self.warm_client("earlier-").await?.end().await;
        match ended.exit_code {
            Some(0) => Ok(()),
            code => Err(format!("the run before the outage ended with {code:?} instead of 0")),
        }
    }

    /// The client starts after the outage has begun.
    async fn start_during_outage(&self) -> Result<(Client, Observed), String> {
        self.site.begin()?;
        let begin = Instant::now();
        let end = begin + self.cell.duration();
        let start = self.epoch.elapsed();
        let mut client = self.client()?;
        let mut is_initialized = false;
        let calls = async {
            let id = client.initialize().await;
            let until = end + judge::longest_limit(self.cell) + GRACE;
            if client.answer(&id, until).await.is_some_and(|answer| answer.is_success()) {
                is_initialized = true;
                client.initialized().await;
                let id = client.list().await;
                if client.answer(&id, until).await.is_some() {
                    client.read(None).await;
                    if self.cell.situation == Situation::SecondStart {
                        client.write_note(None).await;
                    }
                }
            }
        };
        let ending = async {
            sleep_until(end).await;
            self.site.end()
        };
        let ((), ended) = tokio::join!(calls, ending);
        ended?;
        let observed = Observed { start, ..self.times(begin, end) };
        // A client whose handshake failed gives up.
        if is_initialized {
            self.look(&mut client).await;
            client.list().await;
        }
        self.settle(&client, end).await;
        Ok((client, observed))
    }

    /// The outage begins while the client runs.
    async fn outage_during_run(&self) -> Result<(Client, Observed), String> {
        let start = self.epoch.elapsed();
        let mut client = self.warm_client("").await?;
        let gate = self.folder.join("gate");
        match self.cell.situation {
            Situation::ReadInFlight => self.put_in_flight(&mut client, &gate, 1, 0).await?,
            Situation::ManyInFlight => self.put_in_flight(&mut client, &gate, MANY, MANY).await?,
            Situation::Agent => client.call_like_agent(Instant::now() + AGENT_BEFORE).await,
            _ => {}
        }
        self.site.settle_dials(self.stage.counter.as_ref()).await;
        client.mark_in_flight();
        self.site.begin()?;
        let begin = Instant::now();
        let end = begin + self.cell.duration();
        // Calls that are sent again are answered at once.
        fs::write(&gate, "").map_err(|why| why.to_string())?;
        match self.cell.situation {
            Situation::ReadDuring => {
                let half = begin + self.cell.duration() / 2;
                for at in [begin + SOON, half, end - 2 * SOON] {
                    sleep_until(at).await;
                    client.read(None).await;
                    client.list().await;
                }
            }
            Situation::UnsafeDuring => {
                // After the first one the server is known to be away, so the second one must not be sent.
                sleep_until(begin + SOON).await;
                client.write_note(None).await;
                sleep_until(begin + self.cell.duration() / 2).await;
                client.write_note(None).await;
            }
            Situation::Agent => client.call_like_agent(end).await,
            _ => {}
        }
        sleep_until(end).await;
        self.site.end()?;
        let end = Instant::now();
        self.look(&mut client).await;
        client.list().await;
        if self.cell.situation == Situation::UnsafeDuring {
            client.write_note(None).await;
        }
        self.settle(&client, end).await;
        let observed = Observed { start, ..self.times(begin, end) };
        Ok((client, observed))
    }

    /// Reads in a fixed interval until one read succeeds.
    async fn look(&self, client: &mut Client) {
        let mut next = Instant::now();
        for _ in 0..LOOKS {
            next += LOOK_INTERVAL;
            let id = client.read(None).await;
            if client.answer(&id, next).await.is_some_and(|answer| answer.is_success()) {
                return;
            }
            sleep_until(next).await;
        }
    }

    /// Issues calls that are not answered before the gate exists, and waits until the server has all of them.
    async fn put_in_flight(
        &self,
        client: &mut Client,
        gate: &Path,
        reads: usize,
        unsafe_calls: usize,
    ) -> Result<(), String> {
        self.site.hold_calls();
        let mut keys = Vec::new();
        for number in 0..reads.max(unsafe_calls) {
            if number < reads {
                keys.push(client.read(Some(gate)).await);
            }
            if number < unsafe_calls {
                keys.push(client.write_note(Some(gate)).await);
            }
        }
        if self.site.has_received(&keys, Instant::now() + WARM_UP).await {
            Ok(())
        } else {
            Err(format!("before the outage, {} calls did not reach the server", keys.len()))
        }
    }

    /// Waits for all answers, a little longer than their limits.
    async fn settle(&self, client: &Client, end: Instant) {
        let longest = judge::longest_limit(self.cell).max(judge::WAITING);
        client.settle(end.max(Instant::now()) + longest + GRACE).await;
    }

    fn times(&self, begin: Instant, end: Instant) -> Observed {
        let since = |at: Instant| at.saturating_duration_since(self.epoch);
        Observed { begin: since(begin), end: since(end), ..Observed::default() }
    }
}
