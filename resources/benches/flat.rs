//! What one operation costs on an agent with no, 2,000 and 50,000 reservations, and what a
//! freeze costs: `cargo bench -p holdfast-resources`. Prints times and asserts nothing, since
//! machines differ; the numbers of a row should hardly grow from line to line.

use std::hint::black_box;
use std::time::{Duration, Instant};

use resources::collection::Resources;
use resources::id::Principal;
use resources::operation::Operation;
use resources::resource::{Label, Reservation, ReservationKind, Resource};
use resources::role::Role;
use resources::value::{Scalar, Value};

/// Reservations on the agent.
const SIZES: [usize; 3] = [0, 2_000, 50_000];
/// Calls per timing, and timings of which the shortest counts.
const CALLS: u32 = 2_000;
const TIMINGS: usize = 9;

fn reserved(number: usize) -> Resource {
    let size = Value::Scalar(Scalar::from_milli(1000));
    let label = Label { key: "number".to_owned(), value: Some(number.to_string()) };
    Resource::plain("cpus", size).push_reservation(Reservation {
        kind: ReservationKind::Dynamic,
        role: Role::parse(format!("team-{number:05}/web")).expect("a valid role"),
        principal: Some(Principal::new("ops")),
        labels: vec![label].into(),
    })
}

fn shortest(mut call: impl FnMut()) -> Duration {
    let timings = (0..TIMINGS).map(|_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| call());
        start.elapsed() / CALLS
    });
    timings.min().unwrap_or_default()
}

fn line(size: usize) -> String {
    let mut total = Resources::new();
    total.add(&Resource::plain("cpus", Value::Scalar(Scalar::from_milli(1 << 40))));
    // In an order that is not that of the set.
    (0..size).for_each(|number| total.add(&reserved(number * 7919 % 50_000)));
    let resource = reserved(size / 2);
    let reserve = Operation::Reserve { resources: vec![resource.clone()], source: Vec::new() };
    let unreserve = Operation::Unreserve { resources: vec![resource.clone()] };

    let add = shortest(|| total.add(&resource));
    let subtract = shortest(|| total.subtract(&resource));
    let contains = shortest(|| {
        black_box(total.contains_one(&resource));
    });
    let check = shortest(|| {
        black_box(total.check(&reserve).is_ok());
    });
    let apply = shortest(|| {
        total.apply(&reserve).expect("enough is free");
        total.apply(&unreserve).expect("it is reserved");
    }) / 2;
    let mut frozen = total.clone();
    let freeze = shortest(|| {
        let freeze = total.clone();
        total.apply(&reserve).expect("enough is free");
        frozen = freeze;
    });
    format!(
        "{size:>6} {add:>9.1?} {subtract:>9.1?} {contains:>9.1?} {check:>9.1?} {apply:>9.1?} \
         {freeze:>14.1?}"
    )
}

#[expect(clippy::print_stdout, reason = "the numbers are what it is run for")]
fn main() {
    println!("  size       add  subtract  contains     check     apply   freeze+apply");
    for size in SIZES {
        println!("{}", line(size));
    }
}
