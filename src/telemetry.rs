//! Logs and panics of this process. Lines go to standard error; `HOLDFAST_LOG` filters them.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::EnvFilter;

use crate::exit::Failure;

/// Filter of masters and agents: ours at INFO, the consensus library only when something is
/// broken.
pub(crate) fn server_default() -> String {
    format!("info,{}", master::CONSENSUS_LOG_FILTER)
}

const FILTER_VARIABLE: &str = "HOLDFAST_LOG";

/// Sends log lines to standard error, one line each, filtered by `HOLDFAST_LOG` or `default`.
pub(crate) fn start(default: &str) -> Result<(), Failure> {
    let directives = std::env::var(FILTER_VARIABLE).unwrap_or_default();
    let directives = if directives.is_empty() { default } else { &directives };
    let filter = EnvFilter::try_new(directives).map_err(|error| {
        Failure::Usage(format!(
            "environment variable {FILTER_VARIABLE}: '{directives}' is no log filter: {error}"
        ))
    })?;
    tracing_subscriber::fmt()
        .compact()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
    Ok(())
}

/// A panic anywhere ends the process: state half changed must not be served.
pub(crate) fn abort_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
}
