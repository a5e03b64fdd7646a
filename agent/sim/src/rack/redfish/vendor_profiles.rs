//! The BMC products, one profile each.
//!
//! Owns: facts from captured resource trees and bug reports (with their source where a fact is
//! surprising). Everything else has its default, which follows DSP0266. The telemetry of a profile
//! is chosen so that each kind occurs. Must never: contain text copied from a capture.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::profile::{
    Accepted, ActionMatch, Allowable, Already, BootFacts, IfMatch, LedProperty, LogPlace,
    PostReport, Profile, Refusal, RestartFacts, TagKind, Telemetry, UpdatePlace,
};
use crate::rack::power::ResetType as R;

/// BMC products with their own profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Vendor {
    /// No particular product: as the standard requires.
    Generic,
    /// Dell iDRAC9 (PowerEdge R750).
    Idrac9,
    /// Dell iDRAC10 (PowerEdge R470).
    Idrac10,
    /// HPE iLO5 (ProLiant DL385 Gen10 Plus v2).
    Ilo5,
    /// HPE iLO6 (ProLiant Gen11).
    Ilo6,
    /// Lenovo XCC (ThinkSystem SR670 V2).
    Xcc,
    /// Supermicro X12.
    SupermicroX12,
    /// Supermicro X13 (SYS-821GE).
    SupermicroX13,
    /// NVIDIA DGX H100: an AMI BMC with a GPU board beside the host.
    DgxH100,
    /// OpenBMC (bmcweb).
    #[serde(rename = "openbmc")]
    OpenBmc,
}

impl Vendor {
    /// All products.
    pub const ALL: [Self; 10] = [
        Self::Generic,
        Self::Idrac9,
        Self::Idrac10,
        Self::Ilo5,
        Self::Ilo6,
        Self::Xcc,
        Self::SupermicroX12,
        Self::SupermicroX13,
        Self::DgxH100,
        Self::OpenBmc,
    ];
}

impl Profile {
    /// A BMC that can switch its host on only by the power button, and reports the power state a minute
    /// late.
    pub fn button_only() -> Self {
        Self {
            reset_types: vec![R::ForceOff, R::PushPowerButton],
            state_lag: Duration::from_secs(60),
            ..Self::default()
        }
    }

    /// The profile of a product.
    pub fn of(vendor: Vendor) -> Self {
        match vendor {
            Vendor::Generic => Self::default(),
            Vendor::Idrac9 => idrac9(),
            Vendor::Idrac10 => idrac10(),
            Vendor::Ilo5 => ilo5(),
            Vendor::Ilo6 => ilo6(),
            Vendor::Xcc => xcc(),
            Vendor::SupermicroX12 => supermicro_x12(),
            Vendor::SupermicroX13 => supermicro_x13(),
            Vendor::DgxH100 => dgx_h100(),
            Vendor::OpenBmc => openbmc(),
        }
    }
}

fn idrac9() -> Profile {
    Profile {
        updates: Some(UpdatePlace::Jobs),
        manufacturer: "Dell Inc.".to_owned(),
        product: "Integrated Dell Remote Access Controller".to_owned(),
        model: "PowerEdge R750".to_owned(),
        system_id: "System.Embedded.1".to_owned(),
        manager_id: "iDRAC.Embedded.1".to_owned(),
        chassis_id: "System.Embedded.1".to_owned(),
        reset_types: vec![
            R::On,
            R::ForceOff,
            R::ForceRestart,
            R::GracefulRestart,
            R::GracefulShutdown,
            R::PushPowerButton,
            R::Nmi,
            R::PowerCycle,
        ],
        already: Already::Conflict,
        manager_reset_types: vec![R::GracefulRestart],
        restart: RestartFacts {
            refusal: Refusal {
                status: 503,
                message_id: "IDRAC.2.8.SYS518".to_owned(),
                text: "iDRAC is not ready. Retry in 30 seconds.".to_owned(),
                retry_after: Some(30),
            },
            ..Profile::default().restart
        },
        tags: TagKind::None,
        led: LedProperty::IndicatorLitAtRest,
        log: LogPlace {
            of_manager: true,
            id: "Sel".to_owned(),
        },
        session_idle: Duration::from_secs(1800),
        session_full: Refusal {
            status: 503,
            message_id: "IDRAC.2.8.RAC0218".to_owned(),
            text: "The maximum number of user sessions is reached.".to_owned(),
            retry_after: None,
        },
        root: json!({"Oem": {"Dell": {"ManagerMACAddress": "02:00:00:00:00:01"}}}),
        ..Profile::default()
    }
}

/// Reported by users of gofish and of Ironic, for whom it followed iDRAC9.
fn idrac10() -> Profile {
    Profile {
        product: "Integrated Dell Remote Access Controller 10".to_owned(),
        model: "PowerEdge R470".to_owned(),
        settles_after_off: Duration::from_secs(3),
        tags: TagKind::Strong,
        if_match_on_actions: ActionMatch::Refused,
        boot: BootFacts {
            settings: Some("Settings".to_owned()),
            ..BootFacts::default()
        },
        ..idrac9()
    }
}

fn ilo5() -> Profile {
    Profile {
        updates: Some(UpdatePlace::Service),
        manufacturer: "HPE".to_owned(),
        product: "ProLiant DL385 Gen10 Plus v2".to_owned(),
        model: "ProLiant DL385 Gen10 Plus v2".to_owned(),
        reset_types: vec![
            R::On,
            R::ForceOff,
            R::GracefulShutdown,
            R::ForceRestart,
            R::Nmi,
            R::PushPowerButton,
            R::GracefulRestart,
        ],
        chassis_power: false,
        already: Already::BadRequest,
        last_reset_time: false,
        accepted: Accepted::OkMessage,
        tags: TagKind::Weak,
        if_match: IfMatch::NoStar,
        led: LedProperty::Indicator,
        boot: BootFacts {
            refused_in_post: true,
            ..BootFacts::default()
        },
        post: PostReport::HpePostState,
        telemetry: Telemetry::Old,
        log: LogPlace {
            of_manager: false,
            id: "IML".to_owned(),
        },
        error_code: Some("iLO.0.10.ExtendedInfo".to_owned()),
        root: json!({"Oem": {"Hpe": {"Manager": [{"ManagerType": "iLO 5"}]}}}),
        ..Profile::default()
    }
}

fn ilo6() -> Profile {
    Profile {
        product: "ProLiant DL380 Gen11".to_owned(),
        model: "ProLiant DL380 Gen11".to_owned(),
        telemetry: Telemetry::Both,
        root: json!({"Oem": {"Hpe": {"Manager": [{"ManagerType": "iLO 6"}]}}}),
        ..ilo5()
    }
}

fn xcc() -> Profile {
    Profile {
        manufacturer: "Lenovo".to_owned(),
        product: "Lenovo XClarity Controller".to_owned(),
        model: "ThinkSystem SR670 V2".to_owned(),
        reset_types: vec![
            R::On,
            R::Nmi,
            R::GracefulShutdown,
            R::GracefulRestart,
            R::ForceOn,
            R::ForceOff,
            R::ForceRestart,
        ],
        allowable: Allowable::Both,
        last_reset_time: false,
        led: LedProperty::Indicator,
        boot: BootFacts {
            settings: Some("Pending".to_owned()),
            ..BootFacts::default()
        },
        log: LogPlace {
            of_manager: false,
            id: "PlatformLog".to_owned(),
        },
        root: json!({"Oem": {"Lenovo": {}}}),
        ..Profile::default()
    }
}

fn supermicro_x13() -> Profile {
    Profile {
        manufacturer: "Supermicro".to_owned(),
        product: "Supermicro BMC".to_owned(),
        model: "SYS-821GE-TNHR".to_owned(),
        reset_types: vec![
            R::On,
            R::ForceOff,
            R::GracefulShutdown,
            R::GracefulRestart,
            R::ForceRestart,
            R::Nmi,
            R::ForceOn,
        ],
        allowable: Allowable::ActionInfo,
        accepted: Accepted::AcceptedBare,
        boot: BootFacts {
            targets: ["None", "Pxe", "Hdd", "UsbCd", "BiosSetup"]
                .map(str::to_owned)
                .to_vec(),
            ..BootFacts::default()
        },
        log: LogPlace {
            of_manager: false,
            id: "Log1".to_owned(),
        },
        root: json!({"Oem": {"Supermicro": {}}}),
        ..Profile::default()
    }
}

fn supermicro_x12() -> Profile {
    Profile {
        model: "SYS-120U-TNR".to_owned(),
        telemetry: Telemetry::Old,
        ..supermicro_x13()
    }
}

/// Reported by users of gofish (AMI's preconditions) and by NVIDIA (the GPU board).
fn dgx_h100() -> Profile {
    Profile {
        manufacturer: "NVIDIA".to_owned(),
        product: "AMI Redfish Server".to_owned(),
        model: "DGXH100".to_owned(),
        system_id: "DGX".to_owned(),
        manager_id: "BMC".to_owned(),
        chassis_id: "DGX".to_owned(),
        allowable: Allowable::ActionInfo,
        last_reset_time: false,
        if_match: IfMatch::StarOnly,
        led: LedProperty::Indicator,
        boot: BootFacts {
            settings: Some("SD".to_owned()),
            ..BootFacts::default()
        },
        log: LogPlace {
            of_manager: true,
            id: "SEL".to_owned(),
        },
        board_member: Some("HGX_Baseboard_0".to_owned()),
        root: json!({"Oem": {"Ami": {}}}),
        ..Profile::default()
    }
}

fn openbmc() -> Profile {
    Profile {
        updates: Some(UpdatePlace::Task),
        manufacturer: "OpenBMC".to_owned(),
        product: "OpenBMC".to_owned(),
        model: "Reference Platform".to_owned(),
        system_id: "system".to_owned(),
        manager_id: "bmc".to_owned(),
        chassis_id: "chassis".to_owned(),
        reset_types: vec![
            R::On,
            R::ForceOff,
            R::ForceOn,
            R::ForceRestart,
            R::GracefulRestart,
            R::GracefulShutdown,
            R::PowerCycle,
            R::Nmi,
        ],
        allowable: Allowable::ActionInfo,
        restart: RestartFacts {
            keeps_sessions: true,
            ..Profile::default().restart
        },
        telemetry: Telemetry::New,
        log: LogPlace {
            of_manager: false,
            id: "EventLog".to_owned(),
        },
        session_idle: Duration::from_secs(1800),
        session_limit: 64,
        ..Profile::default()
    }
}
