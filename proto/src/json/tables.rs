//! What the codec must know of each message, taken once from the embedded descriptors.
//! Next: `json/encode.rs`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use prost::Name;
use prost_reflect::prost_types::FieldDescriptorProto;
use prost_reflect::{DescriptorPool, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The packages that are ever JSON.
const PACKAGES: &str = "mesos.v1";

/// Arrays that answers print although empty, as Mesos' own writers do (spec §1.10).
const PRINTED_EMPTY: &[(&str, &[&str])] = &[
    ("mesos.v1.master.Response.GetAgents", &["agents", "recovered_agents"]),
    ("mesos.v1.master.Response.GetFrameworks", &["frameworks", "completed_frameworks"]),
    ("mesos.v1.master.Response.GetExecutors", &["executors"]),
    ("mesos.v1.master.Response.GetTasks", &["tasks", "completed_tasks", "unreachable_tasks"]),
    ("mesos.v1.agent.Response.GetFrameworks", &["frameworks", "completed_frameworks"]),
    ("mesos.v1.agent.Response.GetExecutors", &["executors", "completed_executors"]),
    (
        "mesos.v1.agent.Response.GetTasks",
        &["pending_tasks", "queued_tasks", "launched_tasks", "terminated_tasks", "completed_tasks"],
    ),
];

/// The tables of all messages in [`PACKAGES`].
pub(super) static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(DESCRIPTORS).expect("the build script wrote the descriptors");
    Tables::new(&pool)
});

/// Position of a message in [`Tables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MessageIndex(usize);

/// Position of an enum in [`Tables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EnumIndex(usize);

/// All messages and enums.
pub(super) struct Tables {
    messages: Vec<MessageTable>,
    enums: Vec<EnumTable>,
    by_name: BTreeMap<String, MessageIndex>,
}

/// One message.
pub(super) struct MessageTable {
    /// In the order of the `.proto` file.
    pub(super) fields: Vec<Field>,
    by_name: BTreeMap<String, usize>,
    by_number: BTreeMap<u32, usize>,
}

/// One field.
pub(super) struct Field {
    pub(super) number: u32,
    pub(super) name: String,
    /// `"name":`, as printed.
    pub(super) key: String,
    pub(super) kind: FieldKind,
    pub(super) shape: Shape,
    pub(super) is_required: bool,
    /// JSON that stands for it when unset: its explicit default, unless deprecated.
    pub(super) default: Option<String>,
    /// Whether answers print it although empty.
    pub(super) is_printed_empty: bool,
}

/// How many values a field has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    One,
    List,
    Map,
}

/// Types that occur in the packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldKind {
    Double,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Bool,
    String,
    Bytes,
    Enum(EnumIndex),
    Message(MessageIndex),
}

/// One enum.
pub(super) struct EnumTable {
    by_name: BTreeMap<String, i32>,
    by_number: BTreeMap<i32, String>,
}

impl Tables {
    fn new(pool: &DescriptorPool) -> Self {
        let messages: Vec<MessageDescriptor> =
            pool.all_messages().filter(|m| is_in_scope(m.package_name())).collect();
        let enums: Vec<EnumDescriptor> =
            pool.all_enums().filter(|e| is_in_scope(e.package_name())).collect();
        let names = Names {
            messages: positions(messages.iter().map(MessageDescriptor::full_name), MessageIndex),
            enums: positions(enums.iter().map(EnumDescriptor::full_name), EnumIndex),
        };
        Self {
            messages: messages.iter().map(|m| MessageTable::new(m, &names)).collect(),
            enums: enums.iter().map(EnumTable::new).collect(),
            by_name: names.messages,
        }
    }

    /// Where the message stands.
    pub(super) fn index_of<M: Name>(&self) -> MessageIndex {
        *self.by_name.get(&M::full_name()).expect("only messages of Mesos' packages are JSON")
    }

    pub(super) fn message(&self, index: MessageIndex) -> &MessageTable {
        &self.messages[index.0]
    }

    pub(super) fn enumeration(&self, index: EnumIndex) -> &EnumTable {
        &self.enums[index.0]
    }
}

impl MessageTable {
    fn new(message: &MessageDescriptor, names: &Names) -> Self {
        let printed_empty = PRINTED_EMPTY
            .iter()
            .find(|(name, _)| *name == message.full_name())
            .map_or(&[][..], |(_, fields)| fields);
        let fields: Vec<Field> =
            message.fields().map(|field| Field::new(&field, printed_empty, names)).collect();
        let by_name = fields.iter().enumerate().map(|(at, f)| (f.name.clone(), at)).collect();
        let by_number = fields.iter().enumerate().map(|(at, f)| (f.number, at)).collect();
        Self { fields, by_name, by_number }
    }

    pub(super) fn by_name(&self, name: &str) -> Option<&Field> {
        self.by_name.get(name).map(|at| &self.fields[*at])
    }

    /// The position in [`MessageTable::fields`].
    pub(super) fn by_number(&self, number: u32) -> Option<usize> {
        self.by_number.get(&number).copied()
    }
}

impl Field {
    fn new(field: &FieldDescriptor, printed_empty: &[&str], names: &Names) -> Self {
        let shape = match () {
            () if field.is_map() => Shape::Map,
            () if field.is_list() => Shape::List,
            () => Shape::One,
        };
        let kind = FieldKind::new(&field.kind(), names);
        Self {
            number: field.number(),
            name: field.name().to_owned(),
            key: format!("\"{}\":", field.name()),
            kind,
            shape,
            is_required: field.is_required(),
            default: printed_default(kind, field.field_descriptor_proto()),
            is_printed_empty: printed_empty.contains(&field.name()),
        }
    }
}

impl FieldKind {
    fn new(kind: &Kind, names: &Names) -> Self {
        match kind {
            Kind::Double => Self::Double,
            Kind::Int32 => Self::Int32,
            Kind::Int64 => Self::Int64,
            Kind::Uint32 => Self::Uint32,
            Kind::Uint64 => Self::Uint64,
            Kind::Bool => Self::Bool,
            Kind::String => Self::String,
            Kind::Bytes => Self::Bytes,
            Kind::Enum(e) => Self::Enum(names.enums[e.full_name()]),
            Kind::Message(m) => Self::Message(names.messages[m.full_name()]),
            other => panic!("Mesos' messages have no field of type {other:?}"),
        }
    }
}

impl EnumTable {
    fn new(descriptor: &EnumDescriptor) -> Self {
        let values = || descriptor.values().map(|value| (value.number(), value.name().to_owned()));
        Self {
            by_name: values().map(|(number, name)| (name, number)).collect(),
            by_number: values().collect(),
        }
    }

    pub(super) fn number(&self, name: &str) -> Option<i32> {
        self.by_name.get(name).copied()
    }

    pub(super) fn name(&self, number: i32) -> Option<&str> {
        self.by_number.get(&number).map(String::as_str)
    }
}

struct Names {
    messages: BTreeMap<String, MessageIndex>,
    enums: BTreeMap<String, EnumIndex>,
}

fn positions<'a, I>(
    names: impl Iterator<Item = &'a str>,
    index: impl Fn(usize) -> I,
) -> BTreeMap<String, I> {
    names.enumerate().map(|(at, name)| (name.to_owned(), index(at))).collect()
}

fn is_in_scope(package: &str) -> bool {
    package.strip_prefix(PACKAGES).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Deprecated fields print no default. Descriptors hold defaults as text: numbers and booleans
/// as JSON has them, except for doubles without a fraction.
fn printed_default(kind: FieldKind, field: &FieldDescriptorProto) -> Option<String> {
    if field.options.as_ref().is_some_and(prost_reflect::prost_types::FieldOptions::deprecated) {
        return None;
    }
    let text = field.default_value.as_deref()?;
    Some(match kind {
        FieldKind::String | FieldKind::Enum(_) => format!("\"{text}\""),
        FieldKind::Double if !text.contains(['.', 'e']) => format!("{text}.0"),
        _ => text.to_owned(),
    })
}
