//! Places at which a test may kill the agent: between any two steps that change the disk.
//! Passing one costs nothing outside tests. Knows nothing of what the steps do.

/// Passes a place; in a test that has armed this thread, maybe not.
#[cfg(not(test))]
#[inline]
pub(crate) fn pass(_place: &'static str) {}

#[cfg(test)]
pub(crate) use armed::{pass, run};

#[cfg(test)]
mod armed {
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    struct Killed;

    struct Armed {
        fuel: usize,
        passed: BTreeSet<&'static str>,
        on_death: Box<dyn Fn()>,
    }

    thread_local! {
        static ARMED: RefCell<Option<Armed>> = const { RefCell::new(None) };
    }

    pub(crate) fn pass(place: &'static str) {
        let is_dead = ARMED.with_borrow_mut(|armed| {
            let Some(armed) = armed else { return false };
            armed.passed.insert(place);
            armed.fuel = armed.fuel.saturating_sub(1);
            if armed.fuel == 0 {
                (armed.on_death)();
            }
            armed.fuel == 0
        });
        if is_dead {
            // Not a panic: no message, as the process would leave none.
            resume_unwind(Box::new(Killed));
        }
    }

    /// Runs `life` until it passes its place number `fuel`, counted from 1; none when it was
    /// killed there. `on_death` runs before anything is dropped: a killed process drops nothing.
    /// Collects the places that were passed.
    pub(crate) fn run<T>(
        fuel: usize,
        places: &mut BTreeSet<&'static str>,
        on_death: impl Fn() + 'static,
        life: impl FnOnce() -> T,
    ) -> Option<T> {
        let on_death = Box::new(on_death);
        ARMED.set(Some(Armed { fuel, passed: BTreeSet::new(), on_death }));
        let end = catch_unwind(AssertUnwindSafe(life));
        let armed = ARMED.take();
        places.extend(armed.into_iter().flat_map(|armed| armed.passed));
        match end {
            Ok(value) => Some(value),
            Err(payload) if payload.is::<Killed>() => None,
            Err(payload) => resume_unwind(payload),
        }
    }
}
