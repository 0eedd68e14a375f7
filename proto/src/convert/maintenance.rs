//! Maintenance schedules and machines (spec §1.9.4). Next: `convert/agent.rs`.

use resources::machine::{InvalidSchedule, MachineId, Unavailability, Window};

use crate::mesos::v1;
use crate::mesos::v1::maintenance;

/// Machines in the order given.
///
/// # Errors
/// The first that is none.
pub fn machines_from_wire(wire: &[v1::MachineId]) -> Result<Vec<MachineId>, InvalidSchedule> {
    let machine = |id: &v1::MachineId| MachineId::parse(id.hostname.as_deref(), id.ip.as_deref());
    wire.iter().map(machine).collect()
}

/// The windows of a schedule.
///
/// # Errors
/// The first machine that is none.
pub fn schedule_from_wire(wire: &maintenance::Schedule) -> Result<Vec<Window>, InvalidSchedule> {
    let window = |window: &maintenance::Window| {
        let machines = machines_from_wire(&window.machine_ids)?;
        let given = &window.unavailability;
        let unavailability = Unavailability {
            start_ns: given.start.nanoseconds,
            duration_ns: given.duration.as_ref().map(|duration| duration.nanoseconds),
        };
        Ok(Window { machines, unavailability })
    };
    wire.windows.iter().map(window).collect()
}

/// A machine as it is listed.
#[must_use]
pub fn machine_to_wire(machine: &MachineId) -> v1::MachineId {
    v1::MachineId {
        hostname: machine.hostname().map(str::to_owned),
        ip: machine.ip().map(|ip| ip.to_string()),
    }
}

/// When a machine is out of service.
#[must_use]
pub fn unavailability_to_wire(unavailability: &Unavailability) -> v1::Unavailability {
    v1::Unavailability {
        start: v1::TimeInfo { nanoseconds: unavailability.start_ns },
        duration: unavailability.duration_ns.map(|nanoseconds| v1::DurationInfo { nanoseconds }),
    }
}

/// A window with those of its machines that a reader may see; none when that is nothing.
#[must_use]
pub fn window_to_wire<'a>(
    machines: impl Iterator<Item = &'a MachineId>,
    unavailability: &Unavailability,
) -> Option<maintenance::Window> {
    let machine_ids: Vec<v1::MachineId> = machines.map(machine_to_wire).collect();
    let unavailability = unavailability_to_wire(unavailability);
    (!machine_ids.is_empty()).then_some(maintenance::Window { machine_ids, unavailability })
}
