//! The actions that an access control list can rule: their keys in Mesos' JSON, and what their
//! objects are (spec §9.2). Pure. Must not know how rules are matched. Next: `acls.rs`.
#![deny(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::wildcard_enum_match_arm,
    clippy::match_wildcard_for_single_variants
)]

/// What the objects of an action's rules are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// Roles; `a/%` means everything strictly below `a`.
    Roles,
    /// Principals or users.
    Names,
    /// The action as a whole: ANY or NONE.
    Whole,
    /// Paths of endpoints, out of a closed list.
    Paths,
}

macro_rules! actions {
    ($($(#[doc = $doc:literal])+ $action:ident $key:literal $object:literal $kind:ident;)*) => {
        /// Something that a principal may or may not do.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Action {
            $($(#[doc = $doc])+ $action,)*
        }

        impl Action {
            /// Every action that can be ruled.
            pub const ALL: &'static [Self] = &[$(Self::$action,)*];

            /// Its key in the JSON of the lists.
            #[must_use]
            pub const fn key(self) -> &'static str {
                match self { $(Self::$action => $key,)* }
            }

            /// The key of a rule's objects.
            #[must_use]
            pub const fn object_key(self) -> &'static str {
                match self { $(Self::$action => $object,)* }
            }

            /// What its objects are.
            #[must_use]
            pub const fn object_kind(self) -> ObjectKind {
                match self { $(Self::$action => ObjectKind::$kind,)* }
            }
        }
    };
}

actions! {
    /// Subscribe as a framework in a role.
    RegisterFramework "register_frameworks" "roles" Roles;
    /// Register as an agent.
    RegisterAgent "register_agents" "agents" Whole;
    /// Run tasks as a user.
    RunTask "run_tasks" "users" Names;
    /// Reserve resources for a role.
    ReserveResources "reserve_resources" "roles" Roles;
    /// Unreserve what a principal reserved.
    UnreserveResources "unreserve_resources" "reserver_principals" Names;
    /// Create a volume for a role.
    CreateVolume "create_volumes" "roles" Roles;
    /// Destroy a volume that a principal created.
    DestroyVolume "destroy_volumes" "creator_principals" Names;
    /// Grow or shrink a volume of a role.
    ResizeVolume "resize_volumes" "roles" Roles;
    /// End a framework of a principal.
    TeardownFramework "teardown_frameworks" "framework_principals" Names;
    /// See a role's quota.
    GetQuota "get_quotas" "roles" Roles;
    /// Change a role's quota.
    UpdateQuota "update_quotas" "roles" Roles;
    /// See a role and what is reserved for it.
    ViewRole "view_roles" "roles" Roles;
    /// Change a role's weight.
    UpdateWeight "update_weights" "roles" Roles;
    /// Read an endpoint by its path.
    GetEndpoint "get_endpoints" "paths" Paths;
    /// See a framework of a user.
    ViewFramework "view_frameworks" "users" Names;
    /// See a task of a user.
    ViewTask "view_tasks" "users" Names;
    /// See an executor of a user.
    ViewExecutor "view_executors" "users" Names;
    /// See this program's flags.
    ViewFlags "view_flags" "flags" Whole;
    /// Read files of a user's sandbox.
    AccessSandbox "access_sandboxes" "users" Names;
    /// Read the master's log.
    AccessMesosLog "access_mesos_logs" "logs" Whole;
    /// Change how much is logged.
    SetLogLevel "set_log_level" "level" Whole;
    /// See the maintenance schedule.
    GetMaintenanceSchedule "get_maintenance_schedules" "machines" Whole;
    /// Change the maintenance schedule.
    UpdateMaintenanceSchedule "update_maintenance_schedules" "machines" Whole;
    /// Take machines down.
    StartMaintenance "start_maintenances" "machines" Whole;
    /// Bring machines up.
    StopMaintenance "stop_maintenances" "machines" Whole;
    /// See which machines are down.
    GetMaintenanceStatus "get_maintenance_statuses" "machines" Whole;
    /// Give an agent up for ever.
    MarkAgentGone "mark_agents_gone" "agents" Whole;
    /// Drain an agent.
    DrainAgent "drain_agents" "agents" Whole;
    /// Keep an agent out of offers.
    DeactivateAgent "deactivate_agents" "agents" Whole;
    /// Take an agent into offers again.
    ReactivateAgent "reactivate_agents" "agents" Whole;
    /// Change the members of the cluster; an action of this program, not of Mesos.
    ManageServers "manage_servers" "servers" Whole;
}

/// Keys of Mesos for calls that this program does not have: their rules rule nothing.
pub(super) const WITHOUT_CALLS: &[&str] = &[
    "create_block_disks",
    "destroy_block_disks",
    "create_mount_disks",
    "destroy_mount_disks",
    "destroy_raw_disks",
    "view_containers",
    "launch_nested_containers",
    "launch_nested_containers_as_user",
    "launch_nested_container_sessions",
    "launch_nested_container_sessions_as_user",
    "kill_nested_containers",
    "wait_nested_containers",
    "remove_nested_containers",
    "attach_containers_input",
    "attach_containers_output",
    "launch_standalone_containers",
    "kill_standalone_containers",
    "wait_standalone_containers",
    "remove_standalone_containers",
    "view_standalone_containers",
    "modify_resource_provider_configs",
    "view_resource_providers",
    "prune_images",
];

/// Keys that Mesos had once, and what took their place.
pub(super) const REPLACED: &[(&str, &str)] = &[
    ("set_quotas", "update_quotas"),
    ("remove_quotas", "update_quotas"),
    ("shutdown_frameworks", "teardown_frameworks"),
    ("resize_volume", "resize_volumes"),
];

/// The paths that rules on endpoints may name (Mesos' list).
pub(super) const ENDPOINT_PATHS: &[&str] = &[
    "/containers",
    "/containerizer/debug",
    "/files/debug",
    "/logging/toggle",
    "/metrics/snapshot",
    "/monitor/statistics",
];
