//! Makes plans for a supervisor from the messages of a framework: the only place where the
//! agent looks into `TaskInfo` and `ExecutorInfo`. Pure; starts nothing. Next:
//! `runner/attend.rs`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proto::mesos::v1;
use proto::mesos::v1::environment::variable;
use proto::mesos::v1::framework_info::capability::Type as Capability;
use resources::opaque::Opaque;
use resources::resource::{Resource, VolumeMode};
use resources::role::Role;
use resources::task::{Launch, TaskInfo};

use super::check;
use super::job::{FilePlan, Job, ProcessPlan, Program, TaskPlan, VolumePlan};
use crate::core::tasks::event::{Facts, Start};
use crate::core::tasks::row::{ExecutorKind, Traits};
use crate::volumes::Volumes;

/// Time that Mesos gives a command to end when its task says nothing.
const KILL_GRACE: Duration = Duration::from_secs(3);
/// What executors are told of the agent's way to come back.
const RECOVERY_TIMEOUT: &str = "15mins";
const SUBSCRIPTION_BACKOFF_MAX: &str = "2secs";

/// What all plans of an agent share.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    /// The work directory.
    pub(crate) work_dir: PathBuf,
    /// Boot of the machine.
    pub(crate) boot_id: String,
    /// `host:port` of the executor API.
    pub(crate) endpoint: String,
    /// The agent's id.
    pub(crate) agent_id: String,
    /// Time that executors have to end.
    pub(crate) shutdown_grace: Duration,
    /// Where volumes are.
    pub(crate) volumes: Volumes,
}

/// Directory of the files of a run.
pub(crate) fn run_directory(work_dir: &Path, container: &str) -> PathBuf {
    work_dir.join("meta/runs").join(container)
}

/// The folder of the runs of an executor; each one's sandbox is in it.
pub(crate) fn runs_directory(
    work_dir: &Path,
    agent_id: &str,
    framework_id: &str,
    executor_id: &str,
) -> PathBuf {
    let slaves = work_dir.join("slaves").join(agent_id);
    slaves.join("frameworks").join(framework_id).join("executors").join(executor_id).join("runs")
}

/// What the core decides by in a launch.
pub(crate) fn facts(launch: &Launch) -> Facts {
    let executor = launch.executor.as_ref();
    let executor = executor.map(|info| decode::<v1::ExecutorInfo>(&info.wire).unwrap_or_default());
    let kind = match &executor {
        None => ExecutorKind::Command,
        Some(info) if info.r#type() == v1::executor_info::Type::Default => ExecutorKind::Default,
        Some(_) => ExecutorKind::Custom,
    };
    let grace = executor.and_then(|info| info.shutdown_grace_period);
    Facts { traits: traits(&launch.framework), kind, shutdown_grace: grace.map(|g| duration(&g)) }
}

/// What the core decides by in a framework's info.
pub(crate) fn traits(framework: &Opaque) -> Traits {
    let info = decode::<v1::FrameworkInfo>(framework).unwrap_or_default();
    Traits {
        is_partition_aware: has(&info, Capability::PartitionAware),
        is_checkpointing: info.checkpoint(),
    }
}

fn has(info: &v1::FrameworkInfo, capability: Capability) -> bool {
    info.capabilities.iter().any(|has| has.r#type() == capability)
}

pub(super) fn decode<T: prost::Message + Default>(bytes: &Opaque) -> Result<T, String> {
    T::decode(bytes.as_bytes()).map_err(|error| format!("undecodable: {error}"))
}

pub(super) fn duration(info: &v1::DurationInfo) -> Duration {
    Duration::from_nanos(u64::try_from(info.nanoseconds).unwrap_or_default())
}

/// The plan of a whole executor.
pub(crate) fn job(site: &Site, start: &Start) -> Result<Job, String> {
    let Start { name, row, framework, tasks, unshared } = start;
    let framework: v1::FrameworkInfo = decode(framework)?;
    let runs = runs_directory(
        &site.work_dir,
        &site.agent_id,
        name.framework_id.as_str(),
        name.executor_id.as_str(),
    );
    let sandbox = runs.join(&row.container);
    let planner = Planner {
        site,
        framework: &framework,
        framework_id: name.framework_id.as_str(),
        executor_id: name.executor_id.as_str(),
        container: &row.container,
        role: &row.role,
        sandbox: &sandbox,
        unshared,
    };
    let executor = match (&row.info, row.kind) {
        (Some(info), ExecutorKind::Custom) => Some(planner.custom(info)?),
        _ => None,
    };
    let tasks = tasks.iter().map(|task| planner.task(task, row.kind));
    Ok(Job {
        run: run_directory(&site.work_dir, &row.container),
        latest: runs.join("latest"),
        boot_id: site.boot_id.clone(),
        executor,
        tasks: tasks.collect::<Result<_, _>>()?,
        sandbox,
    })
}

/// Makes plans for one executor.
struct Planner<'a> {
    site: &'a Site,
    framework: &'a v1::FrameworkInfo,
    framework_id: &'a str,
    executor_id: &'a str,
    container: &'a str,
    role: &'a Role,
    sandbox: &'a Path,
    /// Volumes that may change their owner.
    unshared: &'a [Resource],
}

impl Planner<'_> {
    fn custom(&self, info: &resources::task::ExecutorInfo) -> Result<ProcessPlan, String> {
        let wire: v1::ExecutorInfo = decode(&info.wire)?;
        let command = wire.command.as_ref().ok_or("the executor has no command")?;
        let mut plan = self.process(command, None, self.sandbox)?;
        plan.volumes = self.volumes(&info.resources, wire.container.as_ref(), self.sandbox)?;
        let grace = wire.shutdown_grace_period.as_ref().map_or(self.site.shutdown_grace, duration);
        let is_checkpointing = self.framework.checkpoint();
        let mut add = |name: &str, value: String| {
            plan.environment.entry(name.to_owned()).or_insert(value);
        };
        add("MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD", text_of(grace));
        add("MESOS_CHECKPOINT", u8::from(is_checkpointing).to_string());
        if is_checkpointing {
            add("MESOS_RECOVERY_TIMEOUT", RECOVERY_TIMEOUT.to_owned());
            add("MESOS_SUBSCRIPTION_BACKOFF_MAX", SUBSCRIPTION_BACKOFF_MAX.to_owned());
        }
        Ok(plan)
    }

    fn task(&self, task: &TaskInfo, kind: ExecutorKind) -> Result<TaskPlan, String> {
        let wire: v1::TaskInfo = decode(&task.wire)?;
        let task_id = task.task_id.as_str();
        let command = wire.command.as_ref().ok_or("the task has no command")?;
        let directory = match kind {
            ExecutorKind::Command | ExecutorKind::Custom => self.sandbox.to_owned(),
            ExecutorKind::Default => self.sandbox.join("tasks").join(task_id),
        };
        let mut process = self.process(command, Some(task_id), &directory)?;
        process.volumes = self.volumes(&task.resources, wire.container.as_ref(), &directory)?;
        let grace = wire.kill_policy.and_then(|policy| policy.grace_period);
        let checks = check::plans(wire.health_check.as_ref(), wire.check.as_ref(), |command| {
            let environment = environment(command)?;
            let all = process.environment.clone().into_iter().chain(environment).collect();
            Ok((program(command)?, all))
        })?;
        Ok(TaskPlan {
            task_id: task_id.to_owned(),
            process,
            kill_grace: grace.as_ref().map_or(KILL_GRACE, duration),
            time_max: wire.max_completion_time.as_ref().map(duration),
            says_killing: has(self.framework, Capability::TaskKillingState),
            checks,
        })
    }

    fn process(
        &self,
        command: &v1::CommandInfo,
        task_id: Option<&str>,
        directory: &Path,
    ) -> Result<ProcessPlan, String> {
        let site = self.site;
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        let mut set = |name: &str, value: &str| all.insert(name.to_owned(), value.to_owned());
        set("MESOS_FRAMEWORK_ID", self.framework_id);
        set("MESOS_EXECUTOR_ID", self.executor_id);
        set("MESOS_CONTAINER_ID", self.container);
        set("MESOS_AGENT_ENDPOINT", &site.endpoint);
        set("MESOS_SLAVE_ID", &site.agent_id);
        set("MESOS_AGENT_ID", &site.agent_id);
        set("MESOS_SLAVE_PID", &format!("slave(1)@{}", site.endpoint));
        set("MESOS_ALLOCATION_ROLE", self.role.as_str());
        if let Some(task_id) = task_id {
            set("MESOS_TASK_ID", task_id);
        }
        let path = directory.to_str().ok_or("the work directory is not UTF-8")?;
        set("MESOS_DIRECTORY", path);
        set("MESOS_SANDBOX", path);
        all.extend(environment(command)?);
        let user = command.user.clone().unwrap_or_else(|| self.framework.user.clone());
        Ok(ProcessPlan {
            program: program(command)?,
            environment: all,
            directory: directory.to_owned(),
            user: (!user.is_empty()).then_some(user),
            volumes: Vec::new(),
            files: command.uris.iter().map(file).collect::<Result<_, _>>()?,
        })
    }

    fn volumes(
        &self,
        resources: &[Resource],
        container: Option<&v1::ContainerInfo>,
        directory: &Path,
    ) -> Result<Vec<VolumePlan>, String> {
        let mut plans = Vec::new();
        for resource in resources.iter().filter(|resource| resource.is_persistent_volume()) {
            let Some(mount) = resource.disk.as_ref().and_then(|disk| disk.volume.as_ref()) else {
                continue;
            };
            plans.push(VolumePlan {
                source: self.site.volumes.path_of(resource)?,
                target: below(directory, &mount.container_path)?,
                is_read_only: mount.mode == VolumeMode::Ro,
                changes_owner: self.unshared.contains(resource),
            });
        }
        let Some(container) = container else { return Ok(plans) };
        if container.r#type() == v1::container_info::Type::Docker {
            return Err("containers of type DOCKER are not supported".to_owned());
        }
        for volume in &container.volumes {
            let source = volume.host_path.as_ref().filter(|path| path.starts_with('/'));
            let source = source.ok_or_else(|| {
                format!("volume {}: only host paths are supported", volume.container_path)
            })?;
            plans.push(VolumePlan {
                source: PathBuf::from(source),
                target: below(directory, &volume.container_path)?,
                is_read_only: volume.mode() == v1::volume::Mode::Ro,
                changes_owner: false,
            });
        }
        Ok(plans)
    }
}

/// A place of one name below the directory.
fn below(directory: &Path, path: &str) -> Result<PathBuf, String> {
    let is_plain = !path.is_empty() && !path.contains('/') && path != "." && path != "..";
    if is_plain {
        Ok(directory.join(path))
    } else {
        Err(format!("container path '{path}' is no single name"))
    }
}

fn program(command: &v1::CommandInfo) -> Result<Program, String> {
    let value = command.value.clone();
    if command.shell() {
        return value.map(Program::Shell).ok_or_else(|| "the command has no value".to_owned());
    }
    let mut arguments = command.arguments.clone();
    let path = match value {
        Some(path) => path,
        None => arguments.first().cloned().ok_or("the command has neither value nor arguments")?,
    };
    if arguments.is_empty() {
        arguments.push(path.clone());
    }
    Ok(Program::Exec(path, arguments))
}

fn environment(command: &v1::CommandInfo) -> Result<Vec<(String, String)>, String> {
    let variables = command.environment.iter().flat_map(|environment| &environment.variables);
    let value = |variable: &v1::environment::Variable| {
        let name = variable.name.clone();
        if variable.r#type() != variable::Type::Secret {
            return Ok((name, variable.value.clone().unwrap_or_default()));
        }
        let secret = variable.secret.as_ref().and_then(|secret| secret.value.as_ref());
        let data = secret.and_then(|value| String::from_utf8(value.data.to_vec()).ok());
        let value = data.ok_or_else(|| format!("variable {name}: only secrets by value"))?;
        Ok((name, value))
    };
    let all: Result<Vec<_>, String> = variables.map(value).collect();
    let is_bad = |(name, value): &&(String, String)| {
        name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
    };
    match all.as_ref().ok().and_then(|all| all.iter().find(is_bad)) {
        Some((name, _)) => Err(format!("environment variable {name:?} cannot be set")),
        None => all,
    }
}

fn file(uri: &v1::command_info::Uri) -> Result<FilePlan, String> {
    let path = uri.value.strip_prefix("file://").unwrap_or(&uri.value);
    if !path.starts_with('/') {
        return Err(format!(
            "cannot fetch {}: only file:///path and /path are supported",
            uri.value
        ));
    }
    let source = PathBuf::from(path);
    let own = source.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let name = uri.output_file.clone().or(own).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| format!("cannot fetch {}: it names no file", uri.value))?;
    below(Path::new(""), &name).map_err(|why| format!("cannot fetch {}: {why}", uri.value))?;
    let is_executable = uri.executable();
    Ok(FilePlan { source, name, is_executable, is_extracted: uri.extract() && !is_executable })
}

/// A duration as Mesos writes it.
fn text_of(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    for (unit, nanos_each) in [("secs", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
        if nanos.is_multiple_of(nanos_each) {
            return format!("{}{unit}", nanos / nanos_each);
        }
    }
    format!("{nanos}ns")
}

/// The plans of one more group of an executor.
pub(crate) fn more_tasks(site: &Site, start: &Start) -> Result<Vec<TaskPlan>, String> {
    job(site, start).map(|job| job.tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_mesos_does() {
        for (millis, expected) in [(5_000, "5secs"), (90_000, "90secs"), (1_500, "1500ms")] {
            assert_eq!(text_of(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn container_paths_stay_in_the_sandbox() {
        for bad in ["", ".", "..", "/abs", "a/b"] {
            assert!(below(Path::new("/s"), bad).is_err(), "{bad}");
        }
        assert_eq!(below(Path::new("/s"), "data"), Ok(PathBuf::from("/s/data")));
    }

    #[test]
    fn only_local_files_are_fetched() {
        let uri =
            |value: &str| v1::command_info::Uri { value: value.to_owned(), ..Default::default() };
        assert_eq!(file(&uri("file:///a/b.tgz")).unwrap().name, "b.tgz");
        assert!(file(&uri("/a/b.tgz")).unwrap().is_extracted);
        for bad in ["http://h/x", "hdfs://h/x", "x", "/", "file:///"] {
            assert!(file(&uri(bad)).unwrap_err().contains("cannot fetch"), "{bad}");
        }
    }
}
