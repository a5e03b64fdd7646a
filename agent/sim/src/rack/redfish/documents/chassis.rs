//! The Chassis.

use serde_json::{Value, json};

use super::systems::SystemView;
use super::{at, link};
use crate::rack::redfish::profile::{Profile, Telemetry};

pub(super) fn chassis(profile: &Profile, shown: &SystemView) -> Value {
    let id = &profile.chassis_id;
    // A Chassis has fewer power states than a fault may report.
    let known = ["On", "Off", "PoweringOn", "PoweringOff", "Paused"];
    let is_known = known.contains(&shown.power.as_str());
    let power = is_known.then_some(&shown.power);
    let mut chassis = json!({
        "@odata.id": at(&format!("Chassis/{id}")),
        "@odata.type": "#Chassis.v1_23_0.Chassis",
        "Id": id,
        "Name": "Chassis",
        "ChassisType": "RackMount",
        "Manufacturer": profile.manufacturer,
        "Model": profile.model,
        "SerialNumber": shown.serial,
        "PowerState": power,
        "Status": {"State": "Enabled", "Health": "OK"},
        "Links": {
            "ComputerSystems": [link(&format!("Systems/{}", profile.system_id))],
            "ManagedBy": [link(&format!("Managers/{}", profile.manager_id))],
        },
    });
    if !profile.chassis_power
        && let Some(chassis) = chassis.as_object_mut()
    {
        chassis.remove("PowerState");
    }
    let (old, new) = (["Power", "Thermal"], ["EnvironmentMetrics", "Sensors"]);
    let old = old.iter().filter(|_| profile.telemetry != Telemetry::New);
    let new = new.iter().filter(|_| profile.telemetry != Telemetry::Old);
    for name in old.chain(new) {
        chassis[*name] = link(&format!("Chassis/{id}/{name}"));
    }
    chassis
}
