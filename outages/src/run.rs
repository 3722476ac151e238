//! A run of many cells: at once, then those that missed only their time once more, alone.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};

use crate::balancer::{self, Row};
use crate::cell::Cell;
use crate::judge::{Miss, judge};
use crate::options::Options;
use crate::play::{Stage, play};
use crate::syn_counter::SynCounter;
use crate::table;

/// If more cells missed their time, the machine or the binary is too slow, and repeating them would take too long.
const MOST_REPEATED: usize = 12;

/// The longest time of a job. Every wait in it has its own limit, so that only a defect of this program exceeds it.
const LONGEST: Duration = Duration::from_secs(300);

/// The interval of starts, so that the processes of many cells do not start at the same moment.
const START_INTERVAL: Duration = Duration::from_millis(100);

/// The printed examples of each demand that was not met.
const EXAMPLES: usize = 2;

/// Something that is run and judged by itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Job {
    Cell(Cell),
    Row(Row),
}

impl Job {
    pub(crate) fn name(&self) -> String {
        match self {
            Job::Cell(cell) => cell.name(),
            Job::Row(row) => row.name(),
        }
    }

    /// Returns the name of its folder.
    fn folder(&self) -> String {
        self.name().replace('/', "-")
    }

    async fn run(&self, stage: &Stage) -> Vec<Miss> {
        let played = async {
            match self {
                Job::Cell(cell) => play(cell, stage).await.map(|observed| {
                    stage.note_lists(cell, &observed);
                    judge(cell, &observed)
                }),
                Job::Row(row) => balancer::run(row, stage).await,
            }
        };
        match timeout(LONGEST, played).await {
            Ok(Ok(misses)) => misses,
            Ok(Err(why)) => vec![Miss::setup(&why)],
            Err(_) => vec![Miss::setup(&format!("it did not end within {LONGEST:?}"))],
        }
    }

    /// Returns the command that runs it alone.
    fn repeat(&self) -> String {
        let kind = if matches!(self, Job::Row(_)) { "--balancers " } else { "" };
        format!("cargo xtask outages {kind}--only {}", self.name())
    }
}

/// The result of a job.
pub(crate) struct Done {
    pub(crate) job: Job,
    pub(crate) misses: Vec<Miss>,
}

/// Runs the selected cells. Returns whether all of them passed.
pub(crate) fn run(options: &Options) -> Result<bool, String> {
    let jobs: Vec<Job> = if options.balancers {
        Row::all().into_iter().filter(|row| options.selects(&row.name())).map(Job::Row).collect()
    } else {
        options.cells().into_iter().map(Job::Cell).collect()
    };
    if jobs.is_empty() {
        return Err("no cell has this name; --list prints all names".to_owned());
    }
    if options.list {
        jobs.iter().for_each(|job| println!("{}", job.name()));
        return Ok(true);
    }
    let stage = stage(options)?;
    if stage.counter.is_none() {
        eprintln!("dials of refused connections are not counted: that needs root");
    }
    let runtime = Builder::new_current_thread().enable_all().build().map_err(|why| why.to_string())?;
    let (began, log_folder) = (Instant::now(), stage.folder.clone());
    let stage = Rc::new(stage);
    let done = LocalSet::new().block_on(&runtime, run_all(jobs, Rc::clone(&stage), options));
    let failed: Vec<&Done> = done.iter().filter(|done| !done.misses.is_empty()).collect();
    for done in &failed {
        println!("\nFAILED {}", done.job.name());
        print_misses(&done.misses);
        println!("  repeat:   {}", done.job.repeat());
        println!("  log:      {}", log_folder.join(done.job.folder()).join("stderr.txt").display());
    }
    let lists = stage.lists.borrow();
    let table = table::markdown(&done) + &table::lists(&lists);
    println!("\n{table}");
    let passed = done.len() - failed.len();
    println!("{passed} of {} passed in {:.0} s", done.len(), began.elapsed().as_secs_f64());
    if let Some(path) = &options.write {
        fs::write(path, &table).map_err(|why| format!("cannot write {}: {why}", path.display()))?;
    }
    Ok(failed.is_empty() && lists.values().all(|digests| digests.len() == 1))
}

/// Prints each demand once, with the first examples.
fn print_misses(misses: &[Miss]) {
    let mut demands: Vec<&str> = Vec::new();
    for miss in misses {
        if demands.contains(&miss.demanded.as_str()) {
            continue;
        }
        demands.push(&miss.demanded);
        let seen: Vec<&str> =
            misses.iter().filter(|it| it.demanded == miss.demanded).map(|it| it.seen.as_str()).collect();
        println!("  demanded: {}", miss.demanded);
        seen.iter().take(EXAMPLES).for_each(|seen| println!("  seen:     {seen}"));
        if seen.len() > EXAMPLES {
            println!("            and {} more", seen.len() - EXAMPLES);
        }
    }
}

fn stage(options: &Options) -> Result<Stage, String> {
    let this = std::env::current_exe().map_err(|why| format!("cannot find this program: {why}"))?;
    let beside = this.parent().map(PathBuf::from).unwrap_or_default();
    let mendline = options.mendline.clone().unwrap_or_else(|| beside.join("mendline"));
    if !mendline.exists() {
        return Err(format!("{} does not exist; `cargo xtask outages` builds it", mendline.display()));
    }
    let mendline = mendline.canonicalize().map_err(|why| why.to_string())?;
    let folder = beside.parent().map(PathBuf::from).unwrap_or_default().join("outages");
    Ok(Stage { mendline, folder, counter: SynCounter::start().ok(), lists: RefCell::default() })
}

async fn run_all(jobs: Vec<Job>, stage: Rc<Stage>, options: &Options) -> Vec<Done> {
    let slots = Rc::new(Semaphore::new(options.jobs));
    let starts = Rc::new(Mutex::new(()));
    let count = jobs.len();
    let mut running = JoinSet::new();
    for (number, job) in jobs.into_iter().enumerate() {
        let (stage, slots, starts) = (Rc::clone(&stage), Rc::clone(&slots), Rc::clone(&starts));
        running.spawn_local(async move {
            // The semaphore is never closed.
            let _slot = slots.acquire().await;
            let starting = starts.lock().await;
            sleep(START_INTERVAL).await;
            drop(starting);
            let began = Instant::now();
            let misses = job.run(&stage).await;
            (number, Done { job, misses }, began.elapsed())
        });
    }
    let mut done: Vec<(usize, Done)> = Vec::new();
    while let Some(ended) = running.join_next().await {
        // A panic of one cell is a defect of this program.
        let (number, it, took) = match ended {
            Ok(it) => it,
            Err(why) => std::panic::resume_unwind(why.into_panic()),
        };
        let state = if it.misses.is_empty() { "ok" } else { "failed" };
        eprintln!("[{}/{count}] {:<50} {state} ({:.1} s)", done.len() + 1, it.job.name(), took.as_secs_f64());
        done.push((number, it));
    }
    done.sort_by_key(|(number, _)| *number);
    let mut done: Vec<Done> = done.into_iter().map(|(_, it)| it).collect();
    repeat_late(&mut done, &stage, options).await;
    done
}

/// Repeats jobs alone that missed only their time.
async fn repeat_late(done: &mut [Done], stage: &Stage, options: &Options) {
    let is_late = |it: &Done| !it.misses.is_empty() && it.misses.iter().all(|miss| miss.is_time);
    let late = done.iter().filter(|it| is_late(it)).count();
    if late == 0 || !options.repeats {
        return;
    }
    if late > MOST_REPEATED {
        eprintln!("{late} cells missed only their time: too many to repeat each alone");
        return;
    }
    for it in done.iter_mut().filter(|it| is_late(it)) {
        it.misses = it.job.run(stage).await;
        let state = if it.misses.is_empty() { "ok" } else { "failed" };
        eprintln!("[alone] {:<50} {state}", it.job.name());
    }
}
