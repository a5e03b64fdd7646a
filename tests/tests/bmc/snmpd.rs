//! The SNMP client of PDUs against net-snmp's snmpd, whose outlets a script switches.

use std::{fs, path::Path, time::Duration};

use rackhand_bmc::{
    ErrorKind,
    pdu::{
        OutletCommand, OutletState, Pdu, PduConfig, PduCredentials, PduTable, SnmpAuth,
        SnmpPrivacy, SnmpUser, connect,
    },
};
use rackhand_tests::process::{Process, free_port};
use tempfile::TempDir;

use crate::ipmi_support::program;
use crate::snmp_support::{AUTH_PASSWORD, Agent, PRIVACY_PASSWORD, USER, community, id, user};

/// Serves the Eaton tables of two outlets to snmpd (`pass`). A command changes the state of its outlet,
/// unless the file `stuck` exists; every command is recorded.
const OUTLETS: &str = r#"#!/bin/sh
D=DIR; B=.1.3.6.1.4.1.534.6.6.7.6
value() {
	n=${1##*.}
	case $1 in
	$B.6.1.2.0.[12]) echo integer; cat $D/state.$n ;;
	$B.6.1.[34].0.[12]) echo integer; echo -1 ;;
	$B.1.1.3.0.[12]) echo string; echo outlet $n ;;
	$B.4.1.3.0.[12]) echo integer; [ $(cat $D/state.$n) = 0 ] && echo 0 || echo 450 ;;
	*) return 1 ;;
	esac
}
next() {
	for oid in $B.1.1.3.0.1 $B.1.1.3.0.2 $B.4.1.3.0.1 $B.4.1.3.0.2 $B.6.1.2.0.1 $B.6.1.2.0.2 $B.6.1.3.0.1 $B.6.1.3.0.2 $B.6.1.4.0.1 $B.6.1.4.0.2; do
		[ "$(printf '%s\n' $1 $oid | sort -V | head -n 1)" = $1 ] && [ $1 != $oid ] && echo $oid && return
	done
}
case $1 in
-g) v=$(value $2) && echo $2 && echo "$v" ;;
-n) n=$(next $2); [ -n "$n" ] && echo $n && value $n ;;
-s)
	echo "$2 $4" >>$D/commands
	n=${2##*.}
	[ $4 = 0 ] || { echo wrong-value; exit; }
	[ -e $D/stuck ] && exit
	case $2 in
	$B.6.1.3.0.[12]) echo 0 >$D/state.$n ;;
	$B.6.1.4.0.[12]) echo 1 >$D/state.$n ;;
	*) echo not-writable ;;
	esac ;;
esac
"#;

pub const EATON: &str = "1.3.6.1.4.1.534.6.6.7.6";

/// snmpd with two outlets, both on.
pub async fn snmpd() -> Agent {
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name);
    let show = |path: &Path| path.display().to_string();
    let script = at("outlets.sh");
    fs::write(&script, OUTLETS.replace("DIR", &show(dir.path()))).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, mode).unwrap();
    for outlet in ["1", "2"] {
        fs::write(at(&format!("state.{outlet}")), "1\n").unwrap();
    }
    let port = free_port().unwrap();
    let config = format!(
        "agentAddress udp:127.0.0.1:{port}\n\
         view all included .1\n\
         rocommunity public default -V all\nrwcommunity private default -V all\n\
         createUser {USER} SHA-256 {AUTH_PASSWORD} AES {PRIVACY_PASSWORD}\n\
         rwuser {USER} authPriv\n\
         createUser reader SHA-256 {AUTH_PASSWORD} AES {PRIVACY_PASSWORD}\n\
         rouser reader authPriv\n\
         createUser sha1 SHA {AUTH_PASSWORD} AES {PRIVACY_PASSWORD}\nrwuser sha1 authPriv\n\
         createUser sha1plain SHA {AUTH_PASSWORD}\nrwuser sha1plain authNoPriv\n\
         createUser sha384 SHA-384 {AUTH_PASSWORD} AES {PRIVACY_PASSWORD}\nrwuser sha384 authPriv\n\
         createUser sha512 SHA-512 {AUTH_PASSWORD} AES-256 {PRIVACY_PASSWORD}\nrwuser sha512 authPriv\n\
         pass .{EATON} /bin/sh {}\n",
        show(&script)
    );
    fs::write(at("snmpd.conf"), config).unwrap();
    let file = show(&at("snmpd.conf"));
    let words = [
        "-f",
        "-Lo",
        "-C",
        "-c",
        &file,
        "-I",
        "-smux,mteTrigger,mteTriggerConf",
    ];
    let mut command = vec![program("snmpd")];
    command.extend(words.map(str::to_owned));
    let state = show(&at("persistent"));
    let env = [
        ("SNMP_PERSISTENT_DIR".to_owned(), state),
        ("MIBS".to_owned(), String::new()),
    ];
    let process = Process::start("snmpd", &command, &env, dir.path()).unwrap();
    let agent = Agent { port, dir, process };
    agent
        .answers(PduTable::Eaton, community("public", None), "1")
        .await
}

impl Agent {
    /// The commands that it took, each with its value.
    pub fn commands(&self) -> Vec<String> {
        let log = fs::read_to_string(self.dir.path().join("commands")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }
}

async fn state(pdu: &dyn Pdu, outlet: &str) -> (OutletState, Option<f64>) {
    let read = pdu.read(&[id(outlet)]).await.unwrap();
    (read[0].state, read[0].amperes)
}

#[tokio::test]
async fn outlets_of_snmpd_are_switched_by_community_and_by_user() {
    let agent = snmpd().await;
    for credentials in [
        community("public", Some("private")),
        user(SnmpAuth::Sha256, Some(SnmpPrivacy::Aes128)),
    ] {
        let pdu = agent.pdu(PduTable::Eaton, credentials);
        assert_eq!(pdu.outlets().await.unwrap().len(), 2);
        pdu.switch(&id("1"), OutletCommand::Off).await.unwrap();
        assert_eq!(
            state(pdu.as_ref(), "1").await,
            (OutletState::Off, Some(0.0))
        );
        assert_eq!(
            state(pdu.as_ref(), "2").await,
            (OutletState::On, Some(0.45))
        );
        pdu.switch(&id("1"), OutletCommand::On).await.unwrap();
        assert_eq!(
            state(pdu.as_ref(), "1").await,
            (OutletState::On, Some(0.45))
        );
        let off = format!(".{EATON}.6.1.3.0.1 0");
        let on = format!(".{EATON}.6.1.4.0.1 0");
        assert_eq!(agent.commands(), [off, on]);
        fs::remove_file(agent.dir.path().join("commands")).unwrap();
    }
}

#[tokio::test]
async fn users_of_every_protocol_switch_outlets_of_snmpd() {
    let agent = snmpd().await;
    for (name, auth, privacy) in [
        ("sha1", SnmpAuth::Sha1, Some(SnmpPrivacy::Aes128)),
        ("sha1plain", SnmpAuth::Sha1, None),
        ("sha384", SnmpAuth::Sha384, Some(SnmpPrivacy::Aes128)),
        ("sha512", SnmpAuth::Sha512, Some(SnmpPrivacy::Aes256)),
    ] {
        let credentials = PduCredentials::User(SnmpUser {
            username: name.to_owned(),
            auth,
            auth_password: AUTH_PASSWORD.into(),
            privacy: privacy.map(|privacy| (privacy, PRIVACY_PASSWORD.into())),
        });
        let pdu = agent.pdu(PduTable::Eaton, credentials);
        let switched = pdu.switch(&id("2"), OutletCommand::Off).await;
        assert!(switched.is_ok(), "{name}: {switched:?}");
        assert_eq!(state(pdu.as_ref(), "2").await.0, OutletState::Off, "{name}");
        pdu.switch(&id("2"), OutletCommand::On).await.unwrap();
        pdu.close().await.unwrap();
    }
    assert_eq!(agent.commands().len(), 8);
}

#[tokio::test]
async fn credentials_that_may_not_write_switch_nothing() {
    let agent = snmpd().await;
    let reader = PduCredentials::User(SnmpUser {
        username: "reader".to_owned(),
        auth: SnmpAuth::Sha256,
        auth_password: AUTH_PASSWORD.into(),
        privacy: Some((SnmpPrivacy::Aes128, PRIVACY_PASSWORD.into())),
    });
    for credentials in [community("public", None), reader] {
        let pdu = agent.pdu(PduTable::Eaton, credentials);
        let refused = pdu.switch(&id("1"), OutletCommand::Off).await.unwrap_err();
        assert_eq!(
            (refused.kind, refused.maybe_sent),
            (ErrorKind::Privilege, false),
            "{refused}"
        );
    }
    assert_eq!(agent.commands(), Vec::<String>::new());
}

#[tokio::test]
async fn outlet_that_does_not_exist_is_an_error_and_nothing_is_written() {
    let agent = snmpd().await;
    let pdu = agent.pdu(PduTable::Eaton, community("public", Some("private")));
    for outlet in ["3", "1.1", "A1"] {
        let missing = pdu.read(&[id("1"), id(outlet)]).await.unwrap_err();
        assert_eq!(missing.kind, ErrorKind::System, "{outlet}: {missing}");
        let missing = pdu
            .switch(&id(outlet), OutletCommand::Off)
            .await
            .unwrap_err();
        assert_eq!(missing.kind, ErrorKind::System, "{outlet}: {missing}");
    }
    assert_eq!(agent.commands(), Vec::<String>::new());
}

#[tokio::test]
async fn silent_agent_is_a_timeout_and_not_off() {
    let agent = snmpd().await;
    agent
        .process
        .signal(nix::sys::signal::Signal::SIGSTOP)
        .unwrap();
    let address = format!("snmp://127.0.0.1:{}", agent.port).parse().unwrap();
    let config = PduConfig {
        table: Some(PduTable::Eaton),
        connect_timeout: Duration::from_millis(200),
        call_timeout: Duration::from_secs(2),
        ..PduConfig::new(address, community("public", None))
    };
    let silent = connect(config).unwrap().read(&[id("1")]).await.unwrap_err();
    assert_eq!(silent.kind, ErrorKind::Timeout, "{silent}");
    agent
        .process
        .signal(nix::sys::signal::Signal::SIGCONT)
        .unwrap();
}

#[tokio::test]
async fn wrong_community_and_wrong_passwords_are_refused() {
    let agent = snmpd().await;
    let wrong = agent.pdu(PduTable::Eaton, community("wrong", None));
    let silent = wrong.read(&[id("1")]).await.unwrap_err();
    assert_eq!(silent.kind, ErrorKind::Timeout, "{silent}");
    let mut wrong = SnmpUser {
        username: USER.to_owned(),
        auth: SnmpAuth::Sha256,
        auth_password: "wrong-password".into(),
        privacy: Some((SnmpPrivacy::Aes128, PRIVACY_PASSWORD.into())),
    };
    for username in [USER, "nobody"] {
        wrong.username = username.to_owned();
        let pdu = agent.pdu(PduTable::Eaton, PduCredentials::User(wrong.clone()));
        // The report that refuses them is not authenticated, so the client does not believe it.
        let refused = pdu.read(&[id("1")]).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Timeout, "{username}: {refused}");
        assert!(!refused.to_string().contains("wrong-password"), "{refused}");
    }
}
