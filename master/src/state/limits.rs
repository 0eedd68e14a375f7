//! Named limits of the state, and for how long it remembers. Raising or lowering one changes what
//! `apply` does, so that it is keyed on the level of the state.

use std::time::Duration;

/// Unconfirmed orders per agent; beyond it operations are refused.
pub const PENDING_ORDERS_MAX: usize = 4_096;
/// Ended operations that are kept for those who ask. A pending one is never forgotten, and
/// a transaction only with the last of its operations.
pub const SETTLED_OPERATIONS_MAX: usize = 100_000;
/// Operations of one transaction.
pub const TRANSACTION_OPERATIONS_MAX: usize = 1_024;
/// Bytes of an idempotency key.
pub const KEY_BYTES_MAX: usize = 128;
/// How long a key is kept at least, in cluster time.
pub const KEY_RETENTION: Duration = Duration::from_secs(3_600);
/// Keys of all callers together; beyond it new keyed calls are refused.
pub const KEYS_MAX: u64 = 200_000;
/// Keys of one principal, or of all callers without one.
pub const KEYS_PER_PRINCIPAL_MAX: u64 = 20_000;
/// Bytes of all kept outcomes; beyond it new keyed calls are refused.
pub const OUTCOME_BYTES_MAX: u64 = 256 << 20;
/// Bytes of the kept outcomes of one principal.
pub const OUTCOME_BYTES_PER_PRINCIPAL_MAX: u64 = 32 << 20;
/// Keys that one command forgets at most, so that no command is slow.
pub const KEYS_EXPIRED_AT_ONCE_MAX: usize = 1_024;
/// Alarms that are kept.
pub const ALARMS_MAX: usize = 100;
/// Operations, and volumes, that a refusal names as standing in the way.
pub const BLOCKING_OBJECTS_MAX: usize = 16;
/// Objects that the record of a difference names, per side.
pub const DIVERGING_OBJECTS_MAX: usize = 256;
/// Bytes of one encoded command, so that it fits an entry and its record a snapshot chunk.
pub const COMMAND_BYTES_MAX: u64 = 768 << 10;
/// Tasks of one framework that ended and are acknowledged: the last ones are kept for those who
/// look (spec §4.5).
pub const COMPLETED_TASKS_MAX: usize = 1_000;
/// Removed frameworks that are kept as they ended (spec §4.2). That they were is kept for ever.
pub const COMPLETED_FRAMEWORKS_MAX: usize = 50;
/// Operations of one framework which bear its own name and whose end it has not acknowledged.
/// None is forgotten before: beyond it, operations with a name are refused.
pub const NAMED_OPERATIONS_MAX: usize = 10_000;
/// Agents that are gone of which what they held is kept for those who look: the last ones. That
/// they are gone is kept for ever.
pub const GONE_AGENTS_REMEMBERED_MAX: u64 = 1_000;
