//! How a command can fail, and the exit code of each way (the contract's list). Every failure is
//! one line on standard error. Next: `flags.rs`.

use std::process::ExitCode;

/// Why a command ends without success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It was asked to say how it is used: no failure, the text goes to standard output.
    Help(String),
    /// Refused, or impossible on this machine: 1.
    Refused(String),
    /// A wrong flag, environment value or file named by a flag: 2.
    Usage(String),
    /// No leader or no quorum within the time given: 3.
    NoLeader(String),
    /// The outcome of a mutating call is unknown: 4.
    Unknown(String),
    /// In conflict with the cluster's state: 5.
    Conflict(String),
}

impl Failure {
    fn parts(&self) -> (u8, &str) {
        match self {
            Self::Help(text) => (0, text),
            Self::Refused(text) => (1, text),
            Self::Usage(text) => (2, text),
            Self::NoLeader(text) => (3, text),
            Self::Unknown(text) => (4, text),
            Self::Conflict(text) => (5, text),
        }
    }
}

/// Prints the failure, if any, and gives the exit code.
pub(crate) fn code(result: Result<(), Failure>) -> ExitCode {
    let Err(failure) = result else { return ExitCode::SUCCESS };
    let (code, text) = failure.parts();
    if let Failure::Help(text) = &failure {
        // A reader that went away (`| head`) has seen what it wanted.
        let _ = crate::cli::print(text);
    } else {
        let line: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        eprintln!("holdfast: {}", line.join(" "));
    }
    ExitCode::from(code)
}

/// An error with its causes as one line, each cause once.
pub(crate) fn chain(error: impl std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        source = cause.source();
    }
    line
}
