//! The options of `mendline-bench load`.
//!
//! With the defaults, a p99 rests on fifty calls and a run takes about four seconds, short enough for several turns of
//! each contender under similar machine load. `cargo xtask bench --quick` uses less.

use std::time::Duration;

/// The most calls in flight: 512 requests of up to 114 bytes fit into a pipe of sixteen pages.
const WIDEST: usize = 512;

/// The validated options and the measured command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) calls: usize,
    pub(crate) warmup: usize,
    pub(crate) in_flight: usize,
    pub(crate) throughput_for: Duration,
    pub(crate) big_calls: usize,
    pub(crate) starts: usize,
    pub(crate) cores: usize,
    pub(crate) over: Over,
    /// Measures only the throughput, with different numbers of calls in flight.
    pub(crate) is_sweep: bool,
    /// Empty only over HTTP, where it means that there is no program in the middle.
    pub(crate) command: Vec<String>,
}

/// The transport to the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The command starts the upstream.
    Stdio,
    /// The upstream already runs; the command gets its URL in place of [`URL`].
    Http,
}

/// The placeholder for the URL of the upstream in a command.
pub(crate) const URL: &str = "{url}";

impl Plan {
    /// Reads `[OPTIONS] -- CMD ARGS…`.
    pub(crate) fn try_new(args: &[String]) -> Result<Self, String> {
        let options = args.split(|arg| arg == "--").next().unwrap_or_default();
        let mut plan = Self {
            calls: 5_000,
            warmup: 500,
            in_flight: 32,
            throughput_for: Duration::from_secs(2),
            big_calls: 40,
            starts: 20,
            cores: 2,
            over: Over::Stdio,
            is_sweep: false,
            command: Vec::new(),
        };
        for pair in options.chunks(2) {
            let [option, value] = pair else { return Err(format!("`{}` needs a value", pair[0])) };
            if option == "--over" {
                plan.over = match value.as_str() {
                    "stdio" => Over::Stdio,
                    "http" => Over::Http,
                    other => return Err(format!("`--over {other}`: neither stdio nor http")),
                };
                continue;
            }
            if option == "--measure" {
                plan.is_sweep = match value.as_str() {
                    "all" => false,
                    "sweep" => true,
                    other => return Err(format!("`--measure {other}`: neither all nor sweep")),
                };
                continue;
            }
            let number: usize = value.parse().map_err(|_| format!("`{option} {value}`: not a number"))?;
            if number == 0 {
                return Err(format!("`{option} 0`: must be at least 1"));
            }
            match option.as_str() {
                "--calls" => plan.calls = number,
                "--warmup" => plan.warmup = number,
                // Requests are written before answers are read, so they must all fit into one pipe.
                "--in-flight" if number <= WIDEST => plan.in_flight = number,
                "--in-flight" => return Err(format!("`--in-flight`: at most {WIDEST}")),
                "--millis" => plan.throughput_for = Duration::from_millis(number as u64),
                "--big-calls" => plan.big_calls = number,
                "--starts" => plan.starts = number,
                "--cores" => plan.cores = number,
                other => return Err(format!("unknown option `{other}`")),
            }
        }
        if plan.over == Over::Stdio || args.len() > options.len() {
            plan.command = command_of(args)?.to_vec();
        }
        Ok(plan)
    }
}

/// Returns the command after the first `--`.
pub(crate) fn command_of(args: &[String]) -> Result<&[String], String> {
    match args.iter().position(|arg| arg == "--") {
        Some(at) if at + 1 < args.len() => Ok(&args[at + 1..]),
        _ => Err("a command is missing: `-- CMD ARGS…`".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_end_at_the_dashes_before_the_command() {
        let plan = Plan::try_new(&split("--calls 7 --millis 300 -- relay -- upstream --calls 9")).unwrap();
        assert_eq!(plan.calls, 7);
        assert_eq!(plan.throughput_for, Duration::from_millis(300));
        assert_eq!(plan.command, split("relay -- upstream --calls 9"));
    }

    #[test]
    fn http_plan_needs_no_command() {
        let plan = Plan::try_new(&split("--calls 7 --over http")).unwrap();
        assert_eq!((plan.over, plan.command), (Over::Http, Vec::new()));
        let plan = Plan::try_new(&split("--over http -- relay {url}")).unwrap();
        assert_eq!(plan.command, split("relay {url}"));
    }

    #[test]
    fn invalid_plan_is_refused_by_name() {
        for (line, named) in [
            ("--calls 7", "command is missing"),
            ("--calls 7 --", "command is missing"),
            ("--calls 0 -- cat", "--calls 0"),
            ("--calls many -- cat", "many"),
            ("--starts -- cat", "--starts"),
            ("--in-flight 513 -- cat", "--in-flight"),
            ("--measure some -- cat", "some"),
            ("--color 2 -- cat", "--color"),
            ("--over udp -- cat", "udp"),
            ("--over stdio", "command is missing"),
            ("--over http --", "command is missing"),
        ] {
            let why = Plan::try_new(&split(line)).unwrap_err();
            assert!(why.contains(named), "`{line}` was refused with `{why}`");
        }
    }
}
