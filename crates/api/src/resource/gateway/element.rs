//! The gateways in a request: `external_gateway_info`, and the lists of the three sub-methods.

use std::net::IpAddr;

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::caller::Caller;
use crate::fault::Fault;
use crate::resource::ipam::FixedIpRequest;
use crate::resource::{Field, Shape};

/// The body of the three sub-methods. An empty object stands for an empty list, as old clients send it.
pub const BODY: Shape = Shape::Object(&[Field::required(
    "router",
    Shape::Object(&[Field::new("external_gateways", Shape::Nullable(&ELEMENTS))]),
)]);
const ELEMENTS: Shape = Shape::List { of: &ELEMENT, max: usize::MAX, unique: false };
const ELEMENT: Shape = Shape::Object(&[
    Field::required("network_id", Shape::Uuid),
    Field::new("external_fixed_ips", Shape::List { of: &FIXED_IP, max: usize::MAX, unique: false }),
    Field::new("enable_snat", Shape::Bool),
    Field::new("qos_policy_id", Shape::Any),
]);
const FIXED_IP: Shape =
    Shape::Object(&[Field::new("subnet_id", Shape::Uuid), Field::new("ip_address", Shape::Address)]);

/// One gateway of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// The external network.
    pub network_id: Uuid,
    /// The requested addresses; empty if the request names none.
    pub fixed_ips: Vec<FixedIpRequest>,
    /// The requested source NAT, if any.
    pub enable_snat: Option<bool>,
}

impl Element {
    /// A gateway on a network without further requests.
    pub fn on(network_id: Uuid) -> Self {
        Element { network_id, fixed_ips: Vec::new(), enable_snat: None }
    }

    /// The requested addresses that are given literally.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.fixed_ips.iter().filter_map(|fixed| fixed.ip_address)
    }
}

/// The sub-method, which determines the allowed keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Add,
    Update,
    Remove,
}

impl Purpose {
    fn rule(self) -> &'static str {
        match self {
            Purpose::Add => "add_external_gateways",
            Purpose::Update => "update_external_gateways",
            Purpose::Remove => "remove_external_gateways",
        }
    }
}

/// The list of a sub-method's body. `None` if the body does not mention gateways.
pub(super) fn read_list(
    body: &Value,
    caller: &Caller,
    purpose: Purpose,
) -> Result<Option<Vec<Element>>, Fault> {
    let Some(router) = body.get("router").and_then(Value::as_object) else {
        return Err(Fault::bad("Unable to find 'router' in request body"));
    };
    let elements = match router.get("external_gateways") {
        None => return Ok(None),
        Some(Value::Null) => return Ok(Some(Vec::new())),
        // The `openstack` client sends an empty object for an empty list.
        Some(Value::Object(object)) if object.is_empty() => return Ok(Some(Vec::new())),
        Some(Value::Array(elements)) => elements,
        Some(_) => return Err(Fault::invalid("external_gateways", "it is not a list of gateways")),
    };
    let read = |element: &Value| {
        let Some(object) = element.as_object() else {
            return Err(Fault::invalid("external_gateways", "an element of it is not a dictionary"));
        };
        if purpose != Purpose::Remove {
            may_say(caller, object, purpose.rule(), "external_gateways")?;
        }
        read_object(object, "external_gateways", purpose == Purpose::Remove)
    };
    elements.iter().map(read).collect::<Result<_, _>>().map(Some)
}

/// The value of `external_gateway_info`; `None` removes the gateway. Permissions on its keys are checked before.
pub fn read_info(value: &Value) -> Result<Option<Element>, Fault> {
    match value {
        Value::Null => Ok(None),
        Value::Object(object) if object.is_empty() => Ok(None),
        Value::Object(object) => read_object(object, "external_gateway_info", false).map(Some),
        _ => Err(Fault::invalid("external_gateway_info", "it is not a dictionary")),
    }
}

/// Checks that only administrators choose addresses and source NAT.
fn may_say(caller: &Caller, object: &Map<String, Value>, rule: &str, attribute: &str) -> Result<(), Fault> {
    let said = ["enable_snat", "external_fixed_ips"].into_iter().find(|key| object.contains_key(*key));
    match said {
        Some(key) if !caller.admin => {
            Err(Fault::forbidden(format!("{rule} and rule:{rule}:{attribute}:{key}")))
        }
        _ => Ok(()),
    }
}

fn read_object(object: &Map<String, Value>, attribute: &str, lenient: bool) -> Result<Element, Fault> {
    let invalid = |reason: String| Fault::invalid(attribute, reason);
    let mut network_id = None;
    let mut fixed_ips = Vec::new();
    let mut enable_snat = None;
    for (key, value) in object {
        match key.as_str() {
            "network_id" => network_id = Some(uuid(value).map_err(invalid)?),
            "external_fixed_ips" if value.is_null() => {}
            "external_fixed_ips" => {
                let Some(list) = value.as_array() else {
                    return Err(invalid("external_fixed_ips is not a list".into()));
                };
                fixed_ips = list.iter().map(read_fixed).collect::<Result<_, _>>().map_err(invalid)?;
            }
            _ if lenient => {}
            "enable_snat" if value.is_null() => {}
            "enable_snat" => enable_snat = Shape::Bool.check(value).map_err(invalid)?.as_bool(),
            "qos_policy_id" => {}
            other => return Err(invalid(format!("Unexpected keys supplied: {other}"))),
        }
    }
    let network_id = network_id.ok_or_else(|| invalid("Expected keys not found: network_id".into()))?;
    Ok(Element { network_id, fixed_ips, enable_snat })
}

fn read_fixed(value: &Value) -> Result<FixedIpRequest, String> {
    let object = value.as_object().ok_or("an element of external_fixed_ips is not a dictionary")?;
    let mut fixed = FixedIpRequest::default();
    for (key, value) in object.iter().filter(|(_, value)| !value.is_null()) {
        match key.as_str() {
            "subnet_id" => fixed.subnet_id = Some(uuid(value)?),
            "ip_address" => {
                let text = Shape::Address.check(value)?;
                fixed.ip_address = text.as_str().and_then(|text| text.parse().ok());
            }
            other => return Err(format!("Unexpected keys supplied: {other}")),
        }
    }
    if fixed == FixedIpRequest::default() {
        return Err("an element of external_fixed_ips has neither subnet_id nor ip_address".into());
    }
    Ok(fixed)
}

fn uuid(value: &Value) -> Result<Uuid, String> {
    let text = Shape::Uuid.check(value)?;
    text.as_str().and_then(|text| text.parse().ok()).ok_or_else(|| "it is not a valid UUID".into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::fixture::{id, ip};

    fn list(value: Value, caller: &Caller, purpose: Purpose) -> Result<Option<Vec<Element>>, Fault> {
        read_list(&json!({"router": {"external_gateways": value}}), caller, purpose)
    }

    #[test]
    fn a_body_that_says_nothing_means_nothing() {
        let admin = Caller::admin("p");
        assert_eq!(read_list(&json!({"router": {}}), &admin, Purpose::Add), Ok(None));
        for empty in [json!(null), json!([]), json!({})] {
            assert_eq!(list(empty, &admin, Purpose::Remove), Ok(Some(vec![])));
        }
    }

    #[test]
    fn bodies_of_another_form_are_refused() {
        let admin = Caller::admin("p");
        for body in [json!(null), json!([]), json!({}), json!({"router": []}), json!({"router": null})] {
            assert_eq!(read_list(&body, &admin, Purpose::Add).unwrap_err().status, 400, "{body}");
        }
        let network = id(1);
        for value in [
            json!({"network_id": network}),
            json!("x"),
            json!(1),
            json!([1]),
            json!([[]]),
            json!([{}]),
            json!([{"network_id": null}]),
            json!([{"network_id": "x"}]),
            json!([{"network_id": network, "external_fixed_ips": {}}]),
            json!([{"network_id": network, "external_fixed_ips": [{}]}]),
            json!([{"network_id": network, "external_fixed_ips": [{"ip_address": "300.1.1.1"}]}]),
            json!([{"network_id": network, "external_fixed_ips": [{"subnet_id": 7}]}]),
            json!([{"network_id": network, "external_fixed_ips": [{"mac": "x"}]}]),
            json!([{"network_id": network, "external_fixed_ips": ["192.0.2.1"]}]),
        ] {
            for purpose in [Purpose::Add, Purpose::Update, Purpose::Remove] {
                let fault = list(value.clone(), &admin, purpose).unwrap_err();
                assert_eq!((fault.status, fault.kind), (400, "HTTPBadRequest"), "{value}");
                assert!(
                    fault.message.starts_with("Invalid input for external_gateways. Reason: "),
                    "{fault}"
                );
            }
        }
        for value in [
            json!([{"network_id": network, "enable_snat": "perhaps"}]),
            json!([{"network_id": network, "colour": "red"}]),
        ] {
            assert_eq!(list(value.clone(), &admin, Purpose::Add).unwrap_err().status, 400);
            assert!(list(value, &admin, Purpose::Remove).is_ok(), "other keys do not matter there");
        }
    }

    #[test]
    fn all_that_can_be_said_is_read() {
        let value = json!([{
            "network_id": id(1), "enable_snat": false, "qos_policy_id": null,
            "external_fixed_ips": [{"subnet_id": id(2), "ip_address": "192.0.2.9"}, {"subnet_id": id(3)}, {"ip_address": "2001:db8::9", "subnet_id": null}],
        }]);
        let wanted = Element {
            network_id: id(1),
            enable_snat: Some(false),
            fixed_ips: vec![
                FixedIpRequest { subnet_id: Some(id(2)), ip_address: Some(ip("192.0.2.9")) },
                FixedIpRequest { subnet_id: Some(id(3)), ip_address: None },
                FixedIpRequest { subnet_id: None, ip_address: Some(ip("2001:db8::9")) },
            ],
        };
        assert_eq!(list(value, &Caller::admin("p"), Purpose::Update), Ok(Some(vec![wanted])));
    }

    #[test]
    fn members_choose_networks_only_but_may_send_back_what_they_read() {
        let member = Caller::member("p");
        assert!(list(json!([{"network_id": id(1)}]), &member, Purpose::Add).is_ok());
        for value in [
            json!([{"network_id": id(1), "enable_snat": true}]),
            json!([{"network_id": id(1), "external_fixed_ips": [{"ip_address": "192.0.2.9"}]}]),
        ] {
            assert_eq!(list(value.clone(), &member, Purpose::Add).unwrap_err().status, 403);
            assert_eq!(list(value.clone(), &member, Purpose::Update).unwrap_err().status, 403);
            assert!(list(value.clone(), &member, Purpose::Remove).is_ok());
        }
    }

    #[test]
    fn an_empty_gateway_info_takes_the_gateway_away() {
        for empty in [json!(null), json!({})] {
            assert_eq!(read_info(&empty), Ok(None));
        }
        for bad in [json!([]), json!(""), json!({"enable_snat": true})] {
            assert_eq!(read_info(&bad).unwrap_err().status, 400, "{bad}");
        }
    }
}
