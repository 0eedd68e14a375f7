//! Ends of commands in words.

/// How a command ended, in Mesos' words.
pub(super) fn text_of(status: i32) -> String {
    let signal = status & 0x7f;
    if signal == 0 {
        return format!("Command exited with status {}", (status >> 8) & 0xff);
    }
    let name = match signal {
        1 => "Hangup",
        2 => "Interrupt",
        6 => "Aborted",
        9 => "Killed",
        11 => "Segmentation fault",
        15 => "Terminated",
        _ => return format!("Command terminated with signal {signal}"),
    };
    format!("Command terminated with signal {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_as_mesos_does() {
        for (status, expected) in [
            (0, "Command exited with status 0"),
            (3 << 8, "Command exited with status 3"),
            (15, "Command terminated with signal Terminated"),
            (9 | 0x80, "Command terminated with signal Killed"),
            (31, "Command terminated with signal 31"),
        ] {
            assert_eq!(text_of(status), expected);
        }
    }
}
