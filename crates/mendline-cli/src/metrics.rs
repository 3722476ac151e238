//! `mendline metrics`: the metrics of every running Mendline of this user, as text or at an address.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use mendline::control::Registry;
use mendline::metrics::endpoint::Endpoint;
use mendline::metrics::text::{ProcessSamples, encode};

use crate::cli::{NEGATIVE, UNKNOWN};
use crate::interrupt::signalled;
use crate::named::Refusal;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  mendline metrics                             print the metrics of all running processes once
  mendline metrics --listen 127.0.0.1:9464     serve them to Prometheus, until it is stopped
  mendline run --metrics 127.0.0.1:9464 notes  one process serves its own

Each process has the label `process` with its id. The metrics are described in docs/metrics.md.
Exit codes: 0 ok, 1 the address cannot be used, 2 wrong usage, 3 no Mendline is running.";

/// The time that a process has to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Options of `mendline metrics`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MetricsOptions {
    /// Serve the metrics at http://ADDRESS/metrics instead of printing them
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Environment variable with the token that a request for metrics needs: `Authorization: Bearer TOKEN`
    #[arg(long, value_name = "VARIABLE", requires = "listen")]
    metrics_token_env: Option<String>,
}

/// The endpoint of a process that also does something else.
#[derive(Args, Clone, Default)]
pub(crate) struct MetricsFlags {
    /// Serve metrics for Prometheus at http://ADDRESS/metrics
    #[arg(long, value_name = "ADDRESS", help_heading = "Metrics")]
    metrics: Option<SocketAddr>,

    /// Environment variable with the token that a request for metrics needs: `Authorization: Bearer TOKEN`
    #[arg(long, value_name = "VARIABLE", requires = "metrics", help_heading = "Metrics")]
    metrics_token_env: Option<String>,
}

impl MetricsFlags {
    /// Listens on the address, if there is one.
    pub(crate) async fn bind(&self) -> std::io::Result<Option<Endpoint>> {
        let Some(address) = self.metrics else { return Ok(None) };
        let endpoint = bind(address, self.metrics_token_env.as_deref()).await;
        endpoint.map(Some).map_err(|refusal| std::io::Error::other(refusal.words))
    }
}

/// Prints or serves the metrics.
pub(crate) fn run(options: &MetricsOptions) -> ExitCode {
    let done = match options.listen {
        None => print(),
        Some(address) => serve(address, options.metrics_token_env.as_deref()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            eprintln!("{}", refusal.words);
            ExitCode::from(refusal.code)
        }
    }
}

fn print() -> Result<(), Refusal> {
    let processes = running();
    if processes.is_empty() {
        let words = "no Mendline is running; clients that `mendline wrap` has changed start it".to_owned();
        return Err(Refusal { words, code: UNKNOWN });
    }
    output::data(encode(processes).as_bytes());
    Ok(())
}

/// Queries all running processes. A process that does not answer is reported.
fn running() -> Vec<ProcessSamples> {
    let found = Registry::of_user().metrics_within(ANSWER_TIMEOUT);
    let one = |(process, samples): (mendline::control::Process, Result<_, _>)| match samples {
        Ok(samples) => Some(ProcessSamples { process: Some(process.pid.to_string()), samples }),
        Err(error) => {
            eprintln!("warning: process {}: {error}", process.pid);
            None
        }
    };
    found.into_iter().filter_map(one).collect()
}

fn serve(address: SocketAddr, variable: Option<&str>) -> Result<(), Refusal> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Refusal { words: format!("error: {error}"), code: NEGATIVE })?;
    runtime.block_on(async {
        let endpoint = bind(address, variable).await?;
        let address = endpoint.address().unwrap_or(address);
        eprintln!("serving the metrics of all running processes at http://{address}/metrics");
        tokio::select! {
            () = endpoint.serve(Arc::new(|| encode(running()))) => {}
            () = signalled() => {}
        }
        Ok(())
    })
}

async fn bind(address: SocketAddr, variable: Option<&str>) -> Result<Endpoint, Refusal> {
    let token = match variable {
        Some(variable) => Some(token(variable)?),
        None => None,
    };
    let bound = Endpoint::bind(address, token.as_deref()).await;
    bound.map_err(|error| Refusal { words: format!("error: {error}"), code: NEGATIVE })
}

/// Reads the token from the environment. The messages name the variable, never its value: people mistake one for the
/// other.
fn token(variable: &str) -> Result<String, Refusal> {
    match std::env::var(variable) {
        Ok(token) if token.trim().is_empty() => {
            Err(Refusal::from("the variable of --metrics-token-env is empty; set it to a token".to_owned()))
        }
        Ok(token) => Ok(token),
        Err(_) => Err(Refusal::from(
            "--metrics-token-env names no variable of the environment; export one that holds the token".to_owned(),
        )),
    }
}
