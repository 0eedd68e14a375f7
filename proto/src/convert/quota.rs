//! Quota and weights of roles, in both of Mesos' forms (spec §1.9.4, §5.5). Whether a role may
//! have them is for the domain. Next: `convert/maintenance.rs`.

use std::collections::BTreeMap;

use resources::quantity::{Limits, Quantities};
use resources::quota::{Quota, QuotaConfig};
use resources::resource::Resource;
use resources::role::Role;
use resources::value::Scalar;
use resources::weight::Weight;

use super::InvalidWire;
use super::resource::from_wire as resource_from_wire;
use crate::mesos::v1;
use crate::mesos::v1::quota as wire;
use crate::mesos::v1::value;

/// A quota in the form of UPDATE_QUOTA.
///
/// # Errors
/// When the role is none, or an amount.
pub fn config_from_wire(config: &wire::QuotaConfig) -> Result<QuotaConfig, InvalidWire> {
    let guarantees = amounts("guarantees", &config.guarantees)?.into();
    let limits = Limits(amounts("limits", &config.limits)?);
    let role = role("quota_configs.role", &config.role)?;
    Ok(QuotaConfig { role, quota: Quota { guarantees, limits } })
}

/// A quota in the form of SET_QUOTA: what is guaranteed is the limit, too.
///
/// # Errors
/// When the role is missing or none, or a resource cannot be a guarantee.
pub fn request_from_wire(request: wire::QuotaRequest) -> Result<QuotaConfig, InvalidWire> {
    let role = role("role", request.role.as_deref().ok_or(InvalidWire::Absent("role"))?)?;
    if request.guarantee.is_empty() {
        return Err(InvalidWire::Absent("guarantee"));
    }
    let mut limits = BTreeMap::new();
    for (index, resource) in request.guarantee.into_iter().enumerate() {
        let resource = resource_from_wire(resource).map_err(|source| InvalidWire::Element {
            field: "guarantee",
            index,
            source,
        })?;
        let reason = |reason| InvalidWire::Guarantee { index, reason };
        let amount = guarantee(&resource).map_err(reason)?;
        if limits.insert(resource.name, amount).is_some() {
            return Err(reason("its kind stands there twice"));
        }
    }
    let guarantees = Quantities::from(limits.clone());
    Ok(QuotaConfig { role, quota: Quota { guarantees, limits: Limits(limits) } })
}

fn guarantee(resource: &Resource) -> Result<Scalar, &'static str> {
    let amount = resource.value.as_scalar().ok_or("a guarantee is an amount")?;
    if resource.is_reserved() {
        return Err("a guarantee has no role and no reservation");
    }
    if resource.disk.is_some() || resource.revocable || resource.shared {
        return Err("a guarantee is a name and an amount, nothing more");
    }
    Ok(amount)
}

fn role(field: &'static str, text: &str) -> Result<Role, InvalidWire> {
    Role::parse(text).map_err(|source| InvalidWire::Role { field, source })
}

fn amounts(
    field: &'static str,
    wire: &BTreeMap<String, value::Scalar>,
) -> Result<BTreeMap<String, Scalar>, InvalidWire> {
    let amount = |(name, scalar): (&String, &value::Scalar)| {
        let value = scalar.value;
        // What rounds to nothing from below is less than nothing all the same.
        match Scalar::from_f64(value).filter(|_| value >= 0.0) {
            Some(amount) => Ok((name.clone(), amount)),
            None => Err(InvalidWire::AmountOf { field, name: name.clone(), value }),
        }
    };
    wire.iter().map(amount).collect()
}

/// All quotas, each in both forms.
#[must_use]
pub fn status<'a>(quotas: impl Iterator<Item = (&'a Role, &'a Quota)>) -> wire::QuotaStatus {
    let mut status = wire::QuotaStatus::default();
    for (role, quota) in quotas {
        let limits = quota.limits.0.iter().map(|(name, amount)| (name.as_str(), *amount));
        status.infos.push(wire::QuotaInfo {
            role: Some(role.to_string()),
            principal: None,
            guarantee: quota.guarantees.iter().map(as_resource).collect(),
        });
        status.configs.push(wire::QuotaConfig {
            role: role.to_string(),
            guarantees: quota.guarantees.iter().map(as_scalar).collect(),
            limits: limits.map(as_scalar).collect(),
        });
    }
    status
}

fn as_scalar((name, amount): (&str, Scalar)) -> (String, value::Scalar) {
    (name.to_owned(), value::Scalar { value: amount.to_f64() })
}

fn as_resource((name, amount): (&str, Scalar)) -> v1::Resource {
    v1::Resource {
        name: name.to_owned(),
        r#type: value::Type::Scalar.into(),
        scalar: Some(value::Scalar { value: amount.to_f64() }),
        ..v1::Resource::default()
    }
}

/// Weights by role; of a role that stands there twice the last one counts.
///
/// # Errors
/// When a role is missing or none, or a weight is none.
pub fn weights_from_wire(infos: &[v1::WeightInfo]) -> Result<BTreeMap<Role, Weight>, InvalidWire> {
    let weight = |info: &v1::WeightInfo| {
        let name = info.role.as_deref().ok_or(InvalidWire::Absent("role"))?;
        let weight = Weight::from_f64(info.weight).map_err(InvalidWire::Weight)?;
        Ok((role("role", name)?, weight))
    };
    infos.iter().map(weight).collect()
}

/// Weights as they are listed.
#[must_use]
pub fn weights_to_wire<'a>(
    weights: impl Iterator<Item = (&'a Role, &'a Weight)>,
) -> Vec<v1::WeightInfo> {
    let info = |(role, weight): (&Role, &Weight)| v1::WeightInfo {
        weight: weight.to_f64(),
        role: Some(role.to_string()),
    };
    weights.map(info).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[track_caller]
    fn check_config(text: &str, expected: Result<&str, &str>) {
        let config = json::decode::<wire::QuotaConfig>(text.as_bytes()).unwrap();
        let found = config_from_wire(&config).map(|config| config.quota.to_string());
        let found = found.map_err(|why| why.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn configs() {
        check_config(
            r#"{"role":"a","guarantees":{"cpus":{"value":1.5}},"limits":{"mem":{"value":0}}}"#,
            Ok("guarantees cpus:1.5 limits mem:0"),
        );
        check_config(r#"{"role":"a"}"#, Ok("none"));
        check_config(
            r#"{"role":"a","limits":{"cpus":{"value":-0.0001}}}"#,
            Err("'limits' of 'cpus' is -0.0001, which is no amount"),
        );
        for bad in [r#""Infinity""#, "1e300", "9e15"] {
            let text = format!(r#"{{"role":"a","guarantees":{{"cpus":{{"value":{bad}}}}}}}"#);
            let config = json::decode::<wire::QuotaConfig>(text.as_bytes()).unwrap();
            assert!(config_from_wire(&config).is_err(), "{bad}");
        }
        check_config(
            r#"{"role":"/"}"#,
            Err("invalid 'quota_configs.role': role '/' has a slash \
            at its start or end, or two in a row"),
        );
    }

    #[track_caller]
    fn check_request(guarantee: &str, expected: Result<&str, &str>) {
        let text = format!(r#"{{"role":"a","guarantee":[{guarantee}]}}"#);
        let request = json::decode::<wire::QuotaRequest>(text.as_bytes()).unwrap();
        let found = request_from_wire(request).map(|config| config.quota.to_string());
        let found = found.map_err(|why| why.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{guarantee}");
    }

    #[test]
    fn requests() {
        let cpus = r#"{"name":"cpus","type":"SCALAR","scalar":{"value":2}}"#;
        check_request(cpus, Ok("guarantees cpus:2 limits cpus:2"));
        check_request("", Err("Expecting 'guarantee' to be present"));
        let twice = format!("{cpus},{cpus}");
        check_request(&twice, Err("invalid 'guarantee[1]': its kind stands there twice"));
        check_request(
            r#"{"name":"cpus","type":"SCALAR","scalar":{"value":2},"role":"a"}"#,
            Err("invalid 'guarantee[0]': a guarantee has no role and no reservation"),
        );
        check_request(
            r#"{"name":"ports","type":"RANGES","ranges":{"range":[{"begin":1,"end":2}]}}"#,
            Err("invalid 'guarantee[0]': a guarantee is an amount"),
        );
        check_request(
            r#"{"name":"cpus","type":"SCALAR","scalar":{"value":2},"revocable":{}}"#,
            Err("invalid 'guarantee[0]': a guarantee is a name and an amount, nothing more"),
        );
    }

    #[test]
    fn both_forms_of_a_status() {
        let (role, quota) = (
            Role::parse("a").unwrap(),
            Quota {
                guarantees: Quantities::parse("cpus:1").unwrap(),
                limits: Limits::parse("cpus:2;mem:0").unwrap(),
            },
        );
        let expected = serde_json::json!({
            "infos": [{"role": "a", "guarantee": [
                {"name": "cpus", "type": "SCALAR", "scalar": {"value": 1.0}}]}],
            "configs": [{"role": "a", "guarantees": {"cpus": {"value": 1.0}},
                "limits": {"cpus": {"value": 2.0}, "mem": {"value": 0.0}}}]});
        let printed = json::encode(&status(std::iter::once((&role, &quota))));
        let printed: serde_json::Value = serde_json::from_slice(&printed).unwrap();
        assert_eq!(printed, expected);
    }

    #[test]
    fn weights() {
        let read = |text: &str| {
            let info = json::decode::<v1::WeightInfo>(text.as_bytes()).unwrap();
            weights_from_wire(&[info]).map_err(|why| why.to_string())
        };
        let good = read(r#"{"role":"a","weight":2.5}"#).unwrap();
        assert_eq!(good[&Role::parse("a").unwrap()].millionths(), 2_500_000);
        assert_eq!(read(r#"{"weight":2}"#).unwrap_err(), "Expecting 'role' to be present");
        assert!(read(r#"{"role":"a","weight":0}"#).unwrap_err().contains("weight 0 must be"));
        assert!(read(r#"{"role":"a/","weight":1}"#).is_err());
        let listed = weights_to_wire(good.iter());
        assert_eq!((listed[0].role(), listed[0].weight), ("a", 2.5));
    }
}
