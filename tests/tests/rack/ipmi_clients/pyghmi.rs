use rackhand_bmc::ipmi::wire::Suite;
use rackhand_tests::rack::ipmi::{Bmc, ChassisControl};

use super::peer::{PATIENCE, bmc, only, power_counts, run};

const SCRIPT: &str = r#"
import json, sys
from pyghmi.ipmi import command
bmc = command.Command(bmc='127.0.0.1', userid='admin', password='secret', port=int(sys.argv[1]))
said = {}
said['at first'] = bmc.get_power()['powerstate']
said['off'] = bmc.set_power('off', wait=10)['powerstate']
said['on'] = bmc.set_power('on', wait=10)['powerstate']
bmc.set_power('reset')
bmc.set_bootdev('network', uefiboot=True)
said['boot'] = bmc.get_bootdev()
said['sensors'] = {one.name: one.value for one in bmc.get_sensor_data()}
said['log'] = [one['event'] for one in bmc.get_event_log()]
said['watts'] = bmc.get_system_power_watts()
said['serial'] = bmc.get_inventory_of_component('System')['Serial Number']
print(json.dumps(said))
bmc.ipmi_session.logout()
"#;

#[tokio::test]
async fn pyghmi_reads_and_switches_with_both_suites() {
    let run_with = async |suite| {
        let bmc = bmc(only(suite)).await;
        let port = bmc.address().port().to_string();
        let text = run("python", &["-c", SCRIPT, &port]).await.done();
        let said: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(said["at first"], "on");
        assert_eq!((&said["off"], &said["on"]), (&"off".into(), &"on".into()));
        assert_eq!(said["boot"]["bootdev"], "network");
        assert_eq!(said["boot"]["uefimode"], true);
        assert_eq!(said["sensors"]["Inlet Temp"], 24.0);
        assert_eq!(said["sensors"]["Fan1"], 5520.0);
        assert_eq!(said["log"], serde_json::json!([]));
        assert_eq!(
            (&said["watts"], &said["serial"]),
            (&212.into(), &"SIM-1".into())
        );
        let closed = |bmc: &mut Bmc, now| bmc.sessions(now) == 0;
        bmc.wait_for(PATIENCE, closed).await.expect("no session");
        let counters = bmc.counters();
        assert_eq!(counters.controlled(ChassisControl::Reset), 1);
        assert_eq!(
            (counters.controls.len(), bmc.power_counts()),
            (3, power_counts(1, 1, 1, 0, 0))
        );
    };
    tokio::join!(run_with(Suite::Cipher3), run_with(Suite::Cipher17));
}
