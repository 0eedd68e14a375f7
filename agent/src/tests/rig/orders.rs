//! Orders of a test, in their numbers, on the disk of its kind. Next: `mounted.rs`.

use resources::id::{OperationId, Principal, Seq};
use resources::message::Order;
use resources::operation::Operation;
use resources::resource::{
    Disk, Labels, Persistence, Reservation, ReservationKind, Resource, VolumeMode, VolumeMount,
};
use resources::role::Role;
use resources::value::{Scalar, Value};

use super::Rig;

impl Rig {
    fn disk(&self, mb: i64) -> Resource {
        let config = self.config(&[]);
        let mut disk = config.resources.iter().find(|r| r.name == "disk").unwrap().clone();
        disk.value = Value::Scalar(Scalar::from_milli(mb * 1_000));
        disk
    }
    pub(crate) fn reserved(&self, mb: i64) -> Resource {
        self.disk(mb).push_reservation(Reservation {
            kind: ReservationKind::Dynamic,
            role: Role::parse("ads").unwrap(),
            principal: Some(Principal::new("ops")),
            labels: Labels::default(),
        })
    }
    pub(crate) fn volume(&self, id: &str, mb: i64) -> Resource {
        let mut volume = self.reserved(mb);
        let source = volume.disk_source().cloned();
        volume.disk = Some(Disk {
            source,
            persistence: Some(Persistence { id: id.parse().unwrap(), principal: None }),
            volume: Some(VolumeMount { container_path: "data".to_owned(), mode: VolumeMode::Rw }),
        });
        volume
    }

    pub(crate) fn order(&mut self, operation: Operation) -> Order {
        let seq = Seq(self.next_seq);
        self.next_seq += 1;
        Order { seq, operation_id: OperationId::parse(format!("o{seq}")).unwrap(), operation }
    }
    pub(crate) fn reserve(&mut self, mb: i64) -> Order {
        let resources = vec![self.reserved(mb)];
        self.order(Operation::Reserve { resources, source: Vec::new() })
    }
    pub(crate) fn unreserve(&mut self, mb: i64) -> Order {
        let resources = vec![self.reserved(mb)];
        self.order(Operation::Unreserve { resources })
    }
    pub(crate) fn create(&mut self, volumes: &[(&str, i64)]) -> Order {
        let volumes = volumes.iter().map(|(id, mb)| self.volume(id, *mb)).collect();
        self.order(Operation::Create { volumes })
    }
    pub(crate) fn destroy(&mut self, volumes: &[(&str, i64)]) -> Order {
        let volumes = volumes.iter().map(|(id, mb)| self.volume(id, *mb)).collect();
        self.order(Operation::Destroy { volumes })
    }
    pub(crate) fn grow(&mut self, id: &str, mb: i64, by: i64) -> Order {
        let (volume, addition) = (self.volume(id, mb), self.reserved(by));
        self.order(Operation::Grow { volume, addition })
    }
    pub(crate) fn shrink(&mut self, id: &str, mb: i64, by: i64) -> Order {
        let volume = self.volume(id, mb);
        self.order(Operation::Shrink { volume, subtract: Scalar::from_milli(by * 1_000) })
    }
}
