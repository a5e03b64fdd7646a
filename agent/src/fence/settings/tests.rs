use super::*;

fn judged(lines: &str) -> Result<Settings, Vec<String>> {
    settings(&Input::lines(lines), true)
}

const BMC: &str = "ip=10.0.0.1\nlogin=admin\npasswd=hush\n";

fn direct_of(lines: &str) -> Direct {
    match judged(&format!("{BMC}{lines}")).unwrap().way {
        Some(Route::Direct(direct)) => *direct,
        other => panic!("{other:?}"),
    }
}

#[test]
fn bmc_address_options_match_other_fence_agents() {
    for (lines, wanted) in [
        ("", vec!["redfish+https://10.0.0.1"]),
        ("ssl=0\nipport=8000", vec!["redfish+http://10.0.0.1:8000"]),
        (
            "ip=bmc.example:8443",
            vec!["redfish+https://bmc.example:8443"],
        ),
        (
            "systems_uri=/redfish/v1/Systems/1\nip=fd00::1",
            vec!["redfish+https://[fd00::1]/redfish/v1/Systems/1"],
        ),
        (
            "lanplus=1\nprivlvl=operator\nipport=6230",
            vec!["ipmi://10.0.0.1:6230?privilegelevel=OPERATOR"],
        ),
        (
            "protocol=AUTO",
            vec![
                "redfish+https://10.0.0.1",
                "ipmi://10.0.0.1?privilegelevel=ADMINISTRATOR",
            ],
        ),
        (
            "port_as_ip=1\nport=10.0.0.2",
            vec!["redfish+https://10.0.0.2"],
        ),
    ] {
        assert_eq!(direct_of(lines).addresses, wanted, "{lines}");
    }
}

#[test]
fn ssl_insecure_0_keeps_verification() {
    assert!(!direct_of("ssl_insecure=0").insecure);
    assert!(direct_of("ssl_insecure=1").insecure);
    assert!(!direct_of("ssl_insecure=1\nssl_secure=1").insecure);
    assert!(direct_of("ssl_insecure=yes").insecure);
}

#[test]
fn all_errors_are_reported_at_once_without_secrets() {
    let mistakes = judged(
        "action=of\nip=10.0.0.1\npasswd=hush\nssl_insecure=maybe\npower_timeout=soon\n\
         retry_on=x\ncipher=4\nhexadecimal_kg=hush-hush\nredfish_uri=/other\n",
    )
    .unwrap_err();
    for wanted in [
        "action \"of\"",
        "username is missing",
        "ssl_insecure",
        "power_timeout",
        "retry_on",
        "cipher must be one of auto, 3, 17",
        "hexadecimal_kg",
        "redfish_uri",
    ] {
        assert!(
            mistakes.iter().any(|mistake| mistake.contains(wanted)),
            "{wanted}: {mistakes:?}"
        );
    }
    assert!(!format!("{mistakes:?}").contains("hush"));
    let shown = format!("{:?}", judged(BMC).unwrap());
    assert!(!shown.contains("hush"), "{shown}");
}

#[test]
fn plugs_without_a_bmc_address_are_hosts_of_an_agent() {
    let way = judged("action=off\nplug=node-1, node-2").unwrap().way;
    let Some(Route::Agent(through)) = way else {
        panic!("{way:?}");
    };
    assert_eq!(through.plugs, ["node-1", "node-2"]);
    assert_eq!(through.socket, PathBuf::from("/run/rackhand/agent.sock"));
    assert!(judged("action=list").is_ok());
    let mistakes = judged("action=off\nagent=a:1").unwrap_err();
    assert_eq!(mistakes.len(), 2, "{mistakes:?}");
}

#[test]
fn default_action_is_reboot_and_unknown_actions_are_errors() {
    assert_eq!(judged(BMC).unwrap().action, Action::Reboot);
    assert_eq!(
        judged(&format!("{BMC}option=Status")).unwrap().action,
        Action::Status
    );
    assert!(judged(&format!("{BMC}action=rebooot")).is_err());
}

#[test]
fn f17_pacemaker_limits_a_run_and_its_operations_are_bounded() {
    let given = Input::lines(BMC);
    let ours = settings(&given, true).unwrap().times;
    let its = settings(&given, false).unwrap().times;
    assert_eq!(ours.power, Duration::from_secs(21));
    assert_eq!(its.power, BOUNDED_BY_CALLER);
    let off = judged(&format!("{BMC}disable_timeout=1")).unwrap().times;
    assert_eq!(off, its);
    let zero = judged(&format!("{BMC}power_timeout=0")).unwrap().times;
    assert_eq!(zero.power, BOUNDED_BY_CALLER);
}

#[test]
fn outlets_are_switched_only_through_an_agent() {
    let outlets = |lines: &str| match judged(lines).unwrap().way {
        Some(Route::Agent(through)) => through.outlets,
        other => panic!("{other:?}"),
    };
    assert!(outlets("action=off\nplug=node-7\ndevice=outlets"));
    assert!(outlets("action=monitor\ndevice=Outlets"));
    assert!(!outlets("action=off\nplug=node-7\ndevice=bmc"));
    assert!(!outlets("action=off\nplug=node-7"));
    for (lines, wanted) in [
        (
            format!("{BMC}action=off\ndevice=outlets"),
            "device=outlets needs a host of the rack agent: give plug, and no ip",
        ),
        (
            "action=diag\nplug=node-7\ndevice=outlets".to_owned(),
            "diag needs the BMC: device=outlets can only switch",
        ),
        (
            "action=off\nplug=node-7\ndevice=pdu".to_owned(),
            "device must be one of bmc, outlets",
        ),
    ] {
        assert_eq!(judged(&lines).unwrap_err(), [wanted], "{lines}");
    }
}

#[test]
fn f5_system_uuid_that_can_match_no_host_is_an_error() {
    const UUID: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";
    let direct = direct_of(&format!("system_uuid={UUID}"));
    assert_eq!(direct.system_uuid.as_deref(), Some(UUID));
    assert_eq!(direct_of("system_uuid=").system_uuid, None);
    let agent = "action=off\nplug=n1\n";
    for wrong in [
        format!("{BMC}system_uuid=none"),
        format!("{BMC}system_uuid=4c4c4544-0042"),
        format!("{BMC}system_uuid=01020304-0506-0708-090a-0b0c0d0e0f10"),
        format!("{agent}system_uuid=00000000-0000-0000-0000-000000000000"),
        format!("{agent}system_uuid={UUID}\ndevice=outlets"),
        format!("{agent}system_uuid={UUID}\nplug=n1,n2"),
    ] {
        let told = judged(&wrong).unwrap_err();
        assert!(
            told.iter().any(|why| why.contains("system_uuid")),
            "{told:?}"
        );
    }
    judged(&format!("{agent}system_uuid={UUID}")).unwrap();
}
