//! The tasks of a node, none of which may end while the process lives: a process whose listener
//! or watcher is gone answers its peers just enough not to be missed. Must not know what the
//! tasks do. Next: `types.rs`.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::env::FatalHook;
use crate::error::FatalError;

/// Starts tasks that run until the node closes.
pub(crate) struct Supervisor {
    pub(crate) closing: CancellationToken,
    pub(crate) fatal: Arc<dyn FatalHook>,
}

impl Supervisor {
    /// Starts a task that sees the closing for itself, because it has things to do at its end.
    pub(crate) fn spawn(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let alarm = Alarm { name, closing: self.closing.clone(), fatal: self.fatal.clone() };
        tokio::spawn(async move {
            task.await;
            alarm.ring();
        })
    }

    /// Starts a task that is simply dropped when the node closes.
    pub(crate) fn spawn_endless(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let closing = self.closing.clone();
        self.spawn(name, async move {
            closing.run_until_cancelled(task).await;
        })
    }
}

/// Rings when its task returns or panics before the node closes; not when the runtime drops the
/// task, because then the process ends, or a test has ended it on purpose.
struct Alarm {
    name: &'static str,
    closing: CancellationToken,
    fatal: Arc<dyn FatalHook>,
}

impl Alarm {
    fn ring(&self) {
        if !self.closing.is_cancelled() {
            self.fatal.fatal(&FatalError::Task(self.name));
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct Rung(Mutex<Vec<String>>);

    impl FatalHook for Rung {
        fn fatal(&self, error: &FatalError) {
            self.0.lock().push(error.to_string());
        }
    }

    #[tokio::test]
    async fn early_end_is_fatal_and_an_end_in_order_is_not() {
        let (rung, closing) = (Arc::new(Rung::default()), CancellationToken::new());
        let supervisor = Supervisor { closing: closing.clone(), fatal: rung.clone() };
        supervisor.spawn("returning", async {}).await.unwrap();
        supervisor.spawn_endless("also returning", async {}).await.unwrap();
        let panicking = supervisor.spawn("panicking", async { panic!("on purpose") });
        assert!(panicking.await.unwrap_err().is_panic());
        let expected = ["returning", "also returning", "panicking"];
        assert_eq!(*rung.0.lock(), expected.map(|name| format!("the task '{name}' ended")));

        let endless = supervisor.spawn_endless("endless", std::future::pending());
        let orderly = supervisor.spawn("orderly", closing.clone().cancelled_owned());
        closing.cancel();
        endless.await.unwrap();
        orderly.await.unwrap();
        supervisor.spawn("aborted", std::future::pending()).abort();
        assert_eq!(rung.0.lock().len(), expected.len());
    }
}
