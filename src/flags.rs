//! Flags of a process: argv, then `HOLDFAST_<NAME>`, then the TOML file of `--config`, in this
//! order of precedence. Underscores in flag names count as dashes. A mistake anywhere is one line
//! that says where. Must not know what any flag means. Next: `dev.rs`.

use std::collections::BTreeMap;
use std::fs;

use clap::error::ErrorKind;
use clap::{Arg, Args, Command};

use crate::exit::Failure;

const CONFIG_FLAG: &str = "config";

/// Where the flags came from that did not stand on the command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Origins(BTreeMap<String, String>);

impl Origins {
    /// `message` with the origin of the flag it is about, if that was not the command line.
    pub(crate) fn explain(&self, message: &str) -> String {
        for (name, origin) in &self.0 {
            let flag = format!("--{name}");
            let mentions = message.match_indices(&flag).any(|(at, _)| {
                let next = message[at + flag.len()..].chars().next();
                !next.is_some_and(|next| next.is_alphanumeric() || next == '-')
            });
            if mentions {
                return format!("{message} (from {origin})");
            }
        }
        message.to_owned()
    }
}

/// Parses the flags of `holdfast NAME` from all three sources.
pub(crate) fn parse<F: Args>(
    name: &'static str,
    about: &'static str,
    argv: &[String],
) -> Result<(F, Origins), Failure> {
    let lookup = |name: &str| std::env::var_os(name);
    parse_with(name, about, argv, lookup)
}

fn parse_with<F: Args>(
    name: &'static str,
    about: &'static str,
    argv: &[String],
    lookup: impl Fn(&str) -> Option<std::ffi::OsString>,
) -> Result<(F, Origins), Failure> {
    let config = Arg::new(CONFIG_FLAG)
        .long(CONFIG_FLAG)
        .value_name("FILE")
        .help("TOML file with flags: `work-dir = \"/var/lib/holdfast\"`");
    let command = Command::new(name)
        .bin_name(format!("holdfast {name}"))
        .about(about)
        .no_binary_name(true)
        .arg(config);
    let mut command = F::augment_args(command);
    let argv: Vec<String> = argv.iter().map(|argument| dashed(argument)).collect();
    let mut sources = Sources { argv, origins: Origins::default(), process: name };
    let file = sources.file(&lookup)?;
    sources.merge(&command, &lookup, file)?;
    let Sources { argv, origins, .. } = sources;
    let matches = command.try_get_matches_from_mut(argv);
    let flags = matches.and_then(|matches| F::from_arg_matches(&matches));
    match flags {
        Ok(flags) => Ok((flags, origins)),
        Err(error) => Err(match failure(&error, name) {
            Failure::Usage(line) => Failure::Usage(origins.explain(&line)),
            other => other,
        }),
    }
}

struct Sources {
    argv: Vec<String>,
    origins: Origins,
    process: &'static str,
}

impl Sources {
    /// The flags of the file named by `--config` or its environment variable, with that name.
    fn file(
        &self,
        lookup: &impl Fn(&str) -> Option<std::ffi::OsString>,
    ) -> Result<Option<(String, toml::Table)>, Failure> {
        let mut path = self.environment(CONFIG_FLAG, lookup)?;
        for (place, argument) in self.argv.iter().enumerate() {
            if argument == "--config" {
                path = self.argv.get(place + 1).cloned();
            } else if let Some(value) = argument.strip_prefix("--config=") {
                path = Some(value.to_owned());
            }
        }
        let Some(path) = path else { return Ok(None) };
        let usage =
            |what: &str| Failure::Usage(format!("{}: --config {path}: {what}", self.process));
        let text = fs::read_to_string(&path).map_err(|error| usage(&error.to_string()))?;
        let table = text.parse::<toml::Table>().map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
            usage(&format!("line {line} is no TOML: {}", error.message()))
        })?;
        Ok(Some((path, table)))
    }

    fn environment(
        &self,
        name: &str,
        lookup: &impl Fn(&str) -> Option<std::ffi::OsString>,
    ) -> Result<Option<String>, Failure> {
        let variable = variable(name);
        let value = lookup(&variable).map(std::ffi::OsString::into_string).transpose();
        value.map_err(|_| {
            let process = self.process;
            Failure::Usage(format!("{process}: environment variable {variable} is not UTF-8"))
        })
    }

    /// Adds to argv what stands only in the environment or in the file.
    fn merge(
        &mut self,
        command: &Command,
        lookup: &impl Fn(&str) -> Option<std::ffi::OsString>,
        file: Option<(String, toml::Table)>,
    ) -> Result<(), Failure> {
        let (path, mut table) = file.unwrap_or_default();
        for argument in command.get_arguments() {
            let Some(name) = argument.get_long().filter(|name| *name != CONFIG_FLAG) else {
                continue;
            };
            let key = [name.to_owned(), name.replace('-', "_")].into_iter();
            let in_file = key.filter_map(|key| table.remove(&key).map(|value| (key, value))).last();
            if self.stands_in_argv(name) {
                continue;
            }
            if let Some(value) = self.environment(name, lookup)? {
                let origin = format!("environment variable {}", variable(name));
                self.add(name, &[value], origin);
            } else if let Some((key, value)) = in_file {
                let values = texts(&value).ok_or_else(|| {
                    let kind = value.type_str();
                    Failure::Usage(format!(
                        "{}: {path}: key '{key}' is a {kind}; expected a text, a number, a \
                         boolean or a list of texts",
                        self.process
                    ))
                })?;
                self.add(name, &values, format!("{path}, key '{key}'"));
            }
        }
        match table.keys().next() {
            None => Ok(()),
            Some(key) => Err(Failure::Usage(format!(
                "{}: {path}: unknown key '{key}'; expected the name of a flag of holdfast {}",
                self.process, self.process
            ))),
        }
    }

    fn stands_in_argv(&self, name: &str) -> bool {
        self.argv.iter().any(|argument| {
            let given = argument.strip_prefix("--").map(|rest| rest.split('=').next());
            given == Some(Some(name))
        })
    }

    fn add(&mut self, name: &str, values: &[String], origin: String) {
        self.argv.extend(values.iter().map(|value| format!("--{name}={value}")));
        self.origins.0.insert(name.to_owned(), origin);
    }
}

/// `--flag_name=value` as `--flag-name=value`; everything else as it is.
fn dashed(argument: &str) -> String {
    let Some(rest) = argument.strip_prefix("--") else { return argument.to_owned() };
    match rest.split_once('=') {
        Some((name, value)) => format!("--{}={value}", name.replace('_', "-")),
        None => format!("--{}", rest.replace('_', "-")),
    }
}

fn variable(name: &str) -> String {
    format!("HOLDFAST_{}", name.replace('-', "_").to_uppercase())
}

/// A TOML value as the texts that would stand on the command line.
fn texts(value: &toml::Value) -> Option<Vec<String>> {
    match value {
        toml::Value::String(text) => Some(vec![text.clone()]),
        toml::Value::Integer(number) => Some(vec![number.to_string()]),
        toml::Value::Float(number) => Some(vec![number.to_string()]),
        toml::Value::Boolean(is_set) => Some(vec![is_set.to_string()]),
        toml::Value::Array(list) => {
            list.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        }
        toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    }
}

/// What clap says, as help or as one line with a hint where to look.
pub(crate) fn failure(error: &clap::Error, name: &str) -> Failure {
    let text = error.render().to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Failure::Help(text);
    }
    let mut paragraphs = text.split("\n\n");
    let first = paragraphs.next().unwrap_or_default();
    let first: Vec<&str> = first.lines().map(str::trim).collect();
    let message = first.join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let tip = paragraphs.find_map(|paragraph| paragraph.trim().strip_prefix("tip: "));
    let tip = tip.map(|tip| format!("; {}", tip.lines().next().unwrap_or_default()));
    let program = format!("holdfast {name}");
    let help = format!("{} --help", program.trim());
    let prefix = if name.is_empty() { String::new() } else { format!("{name}: ") };
    Failure::Usage(format!("{prefix}{message}{} (see: {help})", tip.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::io::Write as _;

    use super::*;

    #[derive(Debug, PartialEq, Eq, clap::Args)]
    struct Sample {
        #[arg(long)]
        id: u64,
        #[arg(long, default_value = "here")]
        work_dir: String,
        #[arg(long, num_args = 0..=1, require_equals = true)]
        #[arg(default_value = "false", default_missing_value = "true")]
        strict: bool,
        #[arg(long)]
        tag: Vec<String>,
    }

    fn check(
        argv: &[&str],
        environment: &[(&str, &str)],
        file: Option<&str>,
    ) -> Result<Sample, String> {
        let mut argv: Vec<String> = argv.iter().map(|a| (*a).to_owned()).collect();
        let mut holder = tempfile::NamedTempFile::new().unwrap();
        if let Some(text) = file {
            holder.write_all(text.as_bytes()).unwrap();
            argv.push(format!("--config={}", holder.path().display()));
        }
        let lookup = |name: &str| {
            environment.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v))
        };
        match parse_with::<Sample>("sample", "A sample", &argv, lookup) {
            Ok((flags, _)) => Ok(flags),
            Err(Failure::Usage(line)) => {
                Err(line.replace(&holder.path().display().to_string(), "FILE"))
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    fn sample(id: u64, work_dir: &str, strict: bool, tag: &[&str]) -> Sample {
        let tag = tag.iter().map(|t| (*t).to_owned()).collect();
        Sample { id, work_dir: work_dir.to_owned(), strict, tag }
    }

    #[test]
    fn precedence_is_argv_environment_file() {
        let file = "id = 3\nwork_dir = \"file\"\nstrict = true\ntag = [\"a\", \"b\"]";
        let environment = [("HOLDFAST_ID", "2"), ("HOLDFAST_WORK_DIR", "env")];
        assert_eq!(check(&[], &[], Some(file)), Ok(sample(3, "file", true, &["a", "b"])));
        assert_eq!(check(&[], &environment, Some(file)), Ok(sample(2, "env", true, &["a", "b"])));
        assert_eq!(
            check(&["--id=1", "--work_dir", "argv"], &environment, Some(file)),
            Ok(sample(1, "argv", true, &["a", "b"]))
        );
        assert_eq!(
            check(&["--id", "1", "--work-dir", ""], &[], None),
            Ok(sample(1, "", false, &[]))
        );
    }

    #[test]
    fn mistakes_are_one_line_that_says_where() {
        for (argv, environment, file, expected) in [
            (vec!["--id", "x"], vec![], None, "invalid value 'x' for '--id <ID>'"),
            (vec![], vec![], None, "--id <ID>"),
            (vec!["--id=1", "--wrok-dir=x"], vec![], None, "exists: '--work-dir'"),
            (vec![], vec![("HOLDFAST_ID", "x")], None, "(from environment variable HOLDFAST_ID)"),
            (vec![], vec![], Some("id = \"x\""), "(from FILE, key 'id')"),
            (vec!["--id=1"], vec![], Some("idd = 1"), "FILE: unknown key 'idd'"),
            (vec!["--id=1"], vec![], Some("a = 1\nb ="), "FILE: line 2 is no TOML"),
            (vec!["--id=1"], vec![], Some("[tag]\na = 1"), "key 'tag' is a table"),
            (vec!["--id=1", "--config=/nowhere/f"], vec![], None, "/nowhere/f: No such file"),
        ] {
            let line = check(&argv, &environment, file).unwrap_err();
            assert!(line.contains(expected), "{line}\n lacks {expected}");
            assert!(!line.contains('\n'), "{line}");
        }
    }
}
