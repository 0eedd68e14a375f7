//! Texts of the command line, good and bad.

use super::*;

#[test]
fn durations() {
    #[track_caller]
    fn check(text: &str, nanos: Option<u64>) {
        assert_eq!(duration(text).ok(), nanos.map(Duration::from_nanos), "{text}");
    }
    check("1ns", Some(1));
    check("250ms", Some(250_000_000));
    check("1.5secs", Some(1_500_000_000));
    check(".5s", Some(500_000_000));
    check("2mins", Some(120_000_000_000));
    check("1min", Some(60_000_000_000));
    check("1m", Some(60_000_000_000));
    check("1h", Some(3_600_000_000_000));
    check("1hrs", Some(3_600_000_000_000));
    check("1days", Some(86_400_000_000_000));
    check("2weeks", Some(1_209_600_000_000_000));
    check("0ns", Some(0));
    for bad in ["", "5", "s", ".s", "1.2.3s", "-1s", "1 fortnight", "1e3s", "99999999999w"] {
        check(bad, None);
    }
}

#[test]
fn numbers_and_other_texts() {
    #[track_caller]
    fn check(text: &str, expected: Result<ParsedValue, InvalidValue>) {
        assert_eq!(value(text), expected, "{text}");
    }
    check("1e3", Ok(ParsedValue::Scalar(1000.0)));
    check("+.5", Ok(ParsedValue::Scalar(0.5)));
    check("-0", Ok(ParsedValue::Scalar(0.0)));
    check("1e999", Ok(ParsedValue::Text("1e999".to_owned())));
    check("0x10", Ok(ParsedValue::Text("0x10".to_owned())));
    check("[9-4]", Err(InvalidValue::RangesInverted { begin: 9, end: 4 }));
    check("[1-2-3]", Err(InvalidValue::Ranges("[1-2-3]".to_owned())));
    check("[-1-2]", Ok(ParsedValue::Ranges(vec![Range { begin: 1, end: 2 }].into())));
    check("a(b", Err(InvalidValue::Brackets("a(b".to_owned())));
}

#[test]
fn default_role_reserves_what_names_none() {
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let role = Role::parse("web").unwrap();
        let resources = resources_text(text, &role).map(|set| set.to_string());
        assert_eq!(resources.unwrap_or_else(|error| error.to_string()), expected);
    }
    check("cpus:2", "cpus(reservations: [(STATIC,web)]):2");
    check("cpus(*):2", "cpus:2");
    check("cpus(ads):2;", "cpus(reservations: [(STATIC,ads)]):2");
    check("cpus)ads:2", "parentheses in resource 'cpus)ads:2' do not match");
    check("cpus(a)b:2", "parentheses in resource 'cpus(a)b:2' do not match");
    check(":2", "invalid resource '': resource has an empty name");
}

#[test]
fn amounts_have_a_limit() {
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let resources = resources_text(text, &Role::star()).map(|set| set.to_string());
        assert_eq!(resources.unwrap_or_else(|error| error.to_string()), expected);
    }
    let max = "9007199254740.992";
    check(&format!("cpus:{max}"), &format!("cpus:{max}"));
    for (text, shown) in [("9007199254740.994", "9007199254740.994"), ("9e15", "9e15")] {
        let scalar = format!("scalar {shown} is no amount up to {max}");
        check(&format!("cpus:{text}"), &format!("invalid resource 'cpus': {scalar}"));
    }
    check(
        "mem:9e12;mem(ads):7199254740.992;mem(web):0.001",
        "resource 'mem' adds up to 9007199254740.993, more than 9007199254740.992",
    );
}
