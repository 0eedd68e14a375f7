//! Reservations as their owners see them: what an agent holds under one stack, with a stable id.
//! Amounts that Mesos merges are one reservation (spec §1.6), so that its id names the agent and
//! the stack. A pure query. Next: `confirm.rs`.

use resources::collection::Resources;
use resources::resource::Reservation;
use resources::stable::{ReservationId, reservation_id};

use super::agents::Agent;

impl Agent {
    /// Everything reserved on this agent, static reservations and volumes included, by stack.
    pub fn reservations(
        &self,
    ) -> impl Iterator<Item = (ReservationId, Vec<Reservation>, Resources)> + '_ {
        let groups = self.total.by_reservation().into_iter();
        groups.map(|(stack, held)| (reservation_id(&self.id, &stack), stack, held))
    }
}
