//! Flags that bound how many agents are marked unreachable. Must not decide when. Next:
//! `dormant.rs`.

use std::time::Duration;

use super::flags::{duration, duration_text};
use crate::leader::{Rate, Removal, Share};

/// How agents are marked unreachable.
#[derive(Debug, Clone, clap::Args)]
pub struct RemovalFlags {
    /// Most agents that may be marked unreachable in a time, as n/duration [default: any number]
    #[arg(long, value_name = "N/DURATION", value_parser = rate)]
    pub agent_removal_rate_limit: Option<Rate>,
    /// Share of the agents that may become unreachable at once; of more, none is marked
    #[arg(long, value_name = "N%", default_value = "100%", value_parser = share)]
    pub recovery_agent_removal_limit: Share,
}

impl RemovalFlags {
    pub(super) const fn removal(&self) -> Removal {
        Removal { limit: self.recovery_agent_removal_limit, rate: self.agent_removal_rate_limit }
    }
    /// These flags in Mesos' spelling.
    pub(super) fn values(&self) -> Vec<(&'static str, String)> {
        let mut values =
            vec![("recovery_agent_removal_limit", share_text(self.recovery_agent_removal_limit))];
        let rate = self.agent_removal_rate_limit;
        let rate = rate.map(|Rate { count, per }| format!("{count}/{}", duration_text(per)));
        values.extend(rate.map(|rate| ("agent_removal_rate_limit", rate)));
        values
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    let expected = || "expected a number and a time such as 1/10mins".to_owned();
    let (count, per) = text.split_once('/').ok_or_else(expected)?;
    let rate = Rate { count: count.parse().map_err(|_| expected())?, per: duration(per)? };
    if rate.count == 0 || rate.per == Duration::ZERO { Err(expected()) } else { Ok(rate) }
}

/// Per cent with up to four decimals, exactly.
fn share(text: &str) -> Result<Share, String> {
    let expected = || "expected a percentage such as 80%".to_owned();
    let number = text.strip_suffix('%').ok_or_else(expected)?;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || decimals.len() > 4 || !is_digits(whole) || !is_digits(decimals) {
        return Err(expected());
    }
    let millionths = format!("{whole}{decimals:0<4}").parse::<u32>().map_err(|_| expected())?;
    if millionths > Share::ALL.0 { Err(expected()) } else { Ok(Share(millionths)) }
}

fn share_text(Share(millionths): Share) -> String {
    let (whole, decimals) = (millionths / 10_000, millionths % 10_000);
    let decimals = format!("{decimals:04}");
    match decimals.trim_end_matches('0') {
        "" => format!("{whole}%"),
        decimals => format!("{whole}.{decimals}%"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_exact_and_print_as_given() {
        for (text, millionths) in
            [("0%", 0), ("80%", 800_000), ("99.5%", 995_000), ("0.0001%", 1), ("100%", 1_000_000)]
        {
            assert_eq!(share(text), Ok(Share(millionths)), "{text}");
            assert_eq!(share_text(Share(millionths)), text);
        }
        for text in ["", "%", "80", "100.1%", "-1%", "1.00001%", "nan%", "101%", ".5%"] {
            assert!(share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_name_a_number_and_a_time() {
        let ten_minutes = Duration::from_secs(600);
        assert_eq!(rate("1/10mins"), Ok(Rate { count: 1, per: ten_minutes }));
        for text in ["", "1", "/10mins", "0/10mins", "1/0secs", "x/1secs", "1/x"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
