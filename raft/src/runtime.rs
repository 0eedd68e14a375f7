//! The async runtime of the consensus library: tokio, with random numbers from the operating
//! system, or from a seed while a simulation has opened one on this thread. Next: `types.rs`.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

use futures::FutureExt;
use openraft::OptionalSend;
use openraft_rt::AsyncRuntime;
use openraft_rt::deterministic_rng::DeterministicRng;
use openraft_rt_tokio::TokioRuntime;

thread_local! {
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// While it lives, every random number that this crate draws on this thread follows from a seed.
/// A simulation runs all its hosts on one thread, so this covers them all.
#[derive(Debug)]
pub struct Seeded {
    previous: Option<u64>,
    // The seed belongs to the thread that set it.
    not_send: PhantomData<*const ()>,
}

impl Seeded {
    /// Draws follow from `seed` until the value is dropped.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { previous: SEED.replace(Some(seed)), not_send: PhantomData }
    }
}

impl Drop for Seeded {
    fn drop(&mut self) {
        SEED.set(self.previous);
    }
}

/// The next random number: of the seed if there is one, else of the operating system.
pub(crate) fn random() -> u64 {
    match SEED.get() {
        Some(seed) => {
            let next = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            SEED.set(Some(next));
            mix(next)
        }
        None => rand::random(),
    }
}

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
fn mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

type Numbers = DeterministicRng<TokioRuntime>;

/// Tokio, with the random numbers of this module.
#[derive(Debug)]
pub struct Runtime(TokioRuntime);

impl AsyncRuntime for Runtime {
    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = <TokioRuntime as AsyncRuntime>::Instant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> =
        <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = <Numbers as AsyncRuntime>::ThreadLocalRng;
    type Mpsc = <TokioRuntime as AsyncRuntime>::Mpsc;
    type Watch = <TokioRuntime as AsyncRuntime>::Watch;
    type Oneshot = <TokioRuntime as AsyncRuntime>::Oneshot;
    type Mutex<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        TokioRuntime::spawn(future)
    }
    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }
    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(deadline)
    }
    fn timeout<R, F: Future<Output = R> + OptionalSend>(
        duration: Duration,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }
    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
        deadline: Self::Instant,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }
    fn is_panic(join_error: &Self::JoinError) -> bool {
        TokioRuntime::is_panic(join_error)
    }
    fn thread_rng() -> Self::ThreadLocalRng {
        // The library's own generator, so that no second version of its random crate is named.
        Numbers::scope(random(), async { Numbers::thread_rng() })
            .now_or_never()
            .expect("a future without a suspension point is ready at once")
    }
    fn new(threads: usize) -> Self {
        Self(TokioRuntime::new(threads))
    }
    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }
    fn spawn_blocking<F, T>(f: F) -> impl Future<Output = Result<T, io::Error>> + Send
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        TokioRuntime::spawn_blocking(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_decides_every_draw() {
        let draw = |seed| {
            let _seeded = Seeded::new(seed);
            [random(), random(), random()]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert_ne!(random(), random());
    }
}
