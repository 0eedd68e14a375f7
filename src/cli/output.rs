//! The four forms of an answer, and standard output. The only place that prints there.

use std::io::{self, Write as _};

use clap::ValueEnum;
use serde_json::Value;

use super::table;
use crate::exit::Failure;

/// Form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Columns
    Table,
    /// More columns
    Wide,
    /// JSON
    Json,
    /// Not built in
    #[value(hide = true)]
    Yaml,
}

/// A list with columns for people and a value for programs.
pub(crate) struct Listing {
    /// Names of the columns.
    pub(crate) headers: Vec<&'static str>,
    /// How many of them the plain table shows.
    pub(crate) narrow: usize,
    /// One text per column.
    pub(crate) rows: Vec<Vec<String>>,
    /// The same as JSON.
    pub(crate) json: Value,
}

impl Listing {
    /// Prints it in the form asked for.
    pub(crate) fn print(mut self, output: Output) -> Result<(), Failure> {
        match output {
            Output::Json => return print_json(&self.json),
            Output::Table => {
                self.headers.truncate(self.narrow);
                self.rows.iter_mut().for_each(|row| row.truncate(self.narrow));
            }
            Output::Wide | Output::Yaml => {}
        }
        print(&table::render(&self.headers, &self.rows))
    }
}

/// A value as the text of a cell.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Prints a value as indented JSON.
pub(crate) fn print_json(value: &Value) -> Result<(), Failure> {
    print(&format!("{value:#}\n"))
}

/// Prints text to standard output. A reader that went away is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Refused(format!("standard output: {error}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
