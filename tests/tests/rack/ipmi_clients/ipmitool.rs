use rackhand_bmc::ipmi::wire::Suite;
use rackhand_tests::rack::ipmi::config::guid_of;
use rackhand_tests::rack::ipmi::{ChassisControl, IpmiBmc, PowerCounts, Privilege, User};
use secrecy::SecretSlice;

use super::peer::{ProgramOutput, bmc, ipmitool, nothing_is_left, only, power_counts, row, value};

async fn tool_as(bmc: &IpmiBmc, user: &[&str], args: &[&str]) -> ProgramOutput {
    ipmitool(bmc.address(), &[user, args].concat()).await
}

async fn tool(bmc: &IpmiBmc, args: &[&str]) -> String {
    tool_as(bmc, &["-U", "admin", "-P", "secret"], args)
        .await
        .done()
}

/// Every power command, once, with the options `suite`.
async fn switches(bmc: &IpmiBmc, suite: &[&str]) {
    let power = async |what: &str| {
        let args = [suite, &["chassis", "power", what]].concat();
        tool(bmc, &args).await.trim().to_owned()
    };
    assert_eq!(power("status").await, "Chassis Power is on");
    assert_eq!(power("off").await, "Chassis Power Control: Down/Off");
    assert_eq!(power("status").await, "Chassis Power is off");
    assert_eq!(power("on").await, "Chassis Power Control: Up/On");
    assert_eq!(power("cycle").await, "Chassis Power Control: Cycle");
    assert_eq!(power("reset").await, "Chassis Power Control: Reset");
    assert_eq!(power("diag").await, "Chassis Power Control: Diag");
    assert_eq!(power("soft").await, "Chassis Power Control: Soft");
    assert_eq!(power("status").await, "Chassis Power is off");

    let counters = nothing_is_left(bmc).await;
    let controls: Vec<_> = counters.controls.iter().map(|one| one.control).collect();
    let expected = [
        ChassisControl::Down,
        ChassisControl::Up,
        ChassisControl::Cycle,
        ChassisControl::Reset,
        ChassisControl::Diagnostic,
        ChassisControl::Soft,
    ];
    assert_eq!(controls, expected, "each once, in order");
    assert_eq!(bmc.power_counts(), power_counts(3, 2, 1, 1, 1));
}

#[tokio::test]
async fn each_command_switches_power_once_with_both_suites() {
    let (three, seventeen) = (bmc(|_| {}).await, bmc(|_| {}).await);
    let (only_three, chooses) = (bmc(only(Suite::Cipher3)).await, bmc(|_| {}).await);
    tokio::join!(
        switches(&three, &["-C", "3"]),
        switches(&seventeen, &["-C", "17"]),
        switches(&only_three, &[]),
        switches(&chooses, &[]),
    );
}

#[tokio::test]
async fn disallowed_suite_opens_no_session() {
    let old = bmc(only(Suite::Cipher3)).await;
    let new = bmc(only(Suite::Cipher17)).await;
    for (bmc, wrong) in [(&old, "17"), (&new, "3")] {
        let admin = ["-U", "admin", "-P", "secret", "-C", wrong];
        let text = tool_as(bmc, &admin, &["mc", "info"]).await.failed();
        assert!(text.contains("Unable to establish"), "{text}");
        assert_eq!(bmc.counters().sessions_opened, 0);
    }
}

#[tokio::test]
async fn identity_is_read() {
    let uuid = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
    let bmc = bmc(|config| config.guid = guid_of(uuid).expect("a UUID")).await;
    let (info, guid, fru) = tokio::join!(
        tool(&bmc, &["mc", "info"]),
        tool(&bmc, &["mc", "guid", "smbios"]),
        tool(&bmc, &["fru", "print"]),
    );
    assert_eq!(value(&info, "Firmware Revision"), "4.20");
    assert_eq!(value(&info, "IPMI Version"), "2.0");
    assert_eq!(value(&info, "Manufacturer ID"), "32473");
    assert_eq!(value(&info, "Device Available"), "yes");
    assert_eq!(value(&guid, "System GUID"), uuid);
    for key in ["Product Manufacturer", "Board Mfg"] {
        assert_eq!(value(&fru, key), "Rackhand");
    }
    assert_eq!(value(&fru, "Product Name"), "Simulated 1U");
    assert_eq!(value(&fru, "Product Serial"), "SIM-1");
    nothing_is_left(&bmc).await;
}

#[tokio::test]
async fn sensors_are_read() {
    let bmc = bmc(|_| {}).await;
    let (list, sensors, watts) = tokio::join!(
        tool(&bmc, &["sdr", "list"]),
        tool(&bmc, &["sensor"]),
        tool(&bmc, &["dcmi", "power", "reading"]),
    );
    for (name, reading) in [
        ("Inlet Temp", "24 degrees C"),
        ("CPU1 Temp", "51 degrees C"),
        ("Fan1", "5520 RPM"),
        ("PSU1 Power", "212 Watts"),
        ("PSU1 Status", "0x01"),
    ] {
        assert_eq!(row(&list, name), [name, reading, "ok"]);
    }
    let inlet = row(&sensors, "Inlet Temp");
    assert_eq!(
        inlet[3..],
        ["ok", "na", "na", "na", "37.000", "42.000", "47.000"]
    );
    let fan = row(&sensors, "Fan1");
    assert_eq!(
        fan[3..],
        ["ok", "na", "360.000", "600.000", "na", "na", "na"]
    );
    assert_eq!(value(&watts, "Instantaneous power reading"), "212 Watts");
    nothing_is_left(&bmc).await;

    tool(&bmc, &["chassis", "power", "off"]).await;
    let list = tool(&bmc, &["sdr", "list"]).await;
    assert_eq!(row(&list, "CPU1 Temp")[1..], ["no reading", "ns"]);
    assert_eq!(row(&list, "Fan1")[1..], ["0 RPM", "cr"]);
}

#[tokio::test]
async fn event_log_is_written_read_and_cleared() {
    let bmc = bmc(|_| {}).await;
    assert!(
        tool(&bmc, &["sel", "list"])
            .await
            .contains("SEL has no entries")
    );
    // A system event of the sensor 2, a temperature: upper critical, going high, 96 of 95.
    let record = "0 0 2 0 0 0 0 0x20 0 4 1 2 1 0x59 96 95";
    let record: Vec<&str> = record.split(' ').collect();
    let id = tool(&bmc, &[&["raw", "0x0a", "0x44"], &record[..]].concat()).await;
    assert_eq!(id.trim(), "01 00");
    let list = tool(&bmc, &["sel", "list"]).await;
    assert_eq!(list.lines().count(), 1, "{list}");
    let expected = ["Temperature #0x02", "Upper Critical going high", "Asserted"];
    assert_eq!(row(&list, "1")[3..6], expected);
    assert_eq!(value(&tool(&bmc, &["sel", "info"]).await, "Entries"), "1");
    tool(&bmc, &["sel", "clear"]).await;
    assert_eq!(value(&tool(&bmc, &["sel", "info"]).await, "Entries"), "0");
    nothing_is_left(&bmc).await;
}

#[tokio::test]
async fn boot_and_identify_are_set() {
    let bmc = bmc(|_| {}).await;
    let flags = async || tool(&bmc, &["chassis", "bootparam", "get", "5"]).await;
    assert!(flags().await.contains("Boot Flag Invalid"));
    tool(&bmc, &["chassis", "bootdev", "pxe"]).await;
    assert_eq!(value(&flags().await, "Boot parameter data"), "8004000000");
    // Used by the next boot.
    tool(&bmc, &["chassis", "power", "cycle"]).await;
    assert!(flags().await.contains("Boot Flag Invalid"));

    tool(
        &bmc,
        &["chassis", "bootdev", "disk", "options=efiboot,persistent"],
    )
    .await;
    tool(&bmc, &["chassis", "power", "reset"]).await;
    let text = flags().await;
    for words in [
        "Boot Flag Valid",
        "Options apply to all future boots",
        "BIOS EFI boot",
        "Force Boot from default Hard-Drive",
    ] {
        assert!(text.contains(words), "{text}");
    }
    tool(&bmc, &["chassis", "identify", "5"]).await;
    let counters = nothing_is_left(&bmc).await;
    assert_eq!(
        (counters.controls.len(), bmc.power_counts()),
        (2, power_counts(1, 1, 1, 0, 0))
    );
}

#[tokio::test]
async fn unauthorized_users_are_rejected() {
    let bmc = bmc(|config| {
        config
            .users
            .push(User::new("reader", "secret", Privilege::User));
    })
    .await;
    let off = ["chassis", "power", "off"];
    for user in [
        ["-U", "admin", "-P", "wrong"],
        ["-U", "nobody", "-P", "secret"],
        // ipmitool requests ADMINISTRATOR.
        ["-U", "reader", "-P", "secret"],
    ] {
        let text = tool_as(&bmc, &user, &off).await.failed();
        assert!(
            text.contains("Unable to establish IPMI v2 / RMCP+ session"),
            "{text}"
        );
    }
    for name in ["admin", "reader"] {
        let user = ["-U", name, "-P", "secret", "-L", "USER"];
        let text = tool_as(&bmc, &user, &off).await.failed();
        assert!(text.contains("Insufficient privilege level"), "{text}");
        let text = tool_as(&bmc, &user, &["chassis", "power", "status"])
            .await
            .done();
        assert_eq!(text.trim(), "Chassis Power is on");
    }
    assert_eq!(bmc.power_counts(), PowerCounts::default());
    assert_eq!(nothing_is_left(&bmc).await.controls, []);
}

#[tokio::test]
async fn login_requires_kg_as_text_or_hexadecimal() {
    let key = b"kg-of-this-bmc-20-by";
    let bmc = bmc(|config| config.kg = Some(SecretSlice::from(key.to_vec()))).await;
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = String::from_utf8_lossy(key).into_owned();
    let status = ["chassis", "power", "status"];
    for suite in ["3", "17"] {
        for key in [["-k", text.as_str()], ["-y", hex.as_str()]] {
            let said = tool(&bmc, &[&["-C", suite], &key[..], &status].concat()).await;
            assert_eq!(said.trim(), "Chassis Power is on");
        }
        let admin = ["-U", "admin", "-P", "secret", "-C", suite];
        let text = tool_as(&bmc, &admin, &status).await.failed();
        assert!(text.contains("Unable to establish"), "{text}");
    }
}
