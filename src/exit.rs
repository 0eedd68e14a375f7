//! How a command can fail, and the exit code of each way (the contract's list). Every failure is
//! one line on standard error; what a master tells beyond that stands indented below it.
//! Next: `flags.rs`.

use std::process::ExitCode;

/// How a line begins that is a detail of a failure and stays a line of its own.
pub(crate) const DETAIL: &str = "  ";

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
        eprintln!("holdfast: {}", shown(text));
    }
    ExitCode::from(code)
}

/// One line, and the details below it.
fn shown(text: &str) -> String {
    let (details, message): (Vec<&str>, Vec<&str>) =
        text.lines().filter(|l| !l.trim().is_empty()).partition(|l| l.starts_with(DETAIL));
    let message: Vec<&str> = message.into_iter().map(str::trim).collect();
    std::iter::once(message.join(" "))
        .chain(details.into_iter().map(str::to_owned))
        .collect::<Vec<_>>()
        .join("\n")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_and_details() {
        assert_eq!(shown("a\n b\n\nc"), "a b c");
        assert_eq!(shown("a\n  wanted: x\n  next: y\n"), "a\n  wanted: x\n  next: y");
    }
}
