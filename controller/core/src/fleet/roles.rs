//! The roles of a machine in its cluster, and which machines are members of its etcd (F6).
//!
//! Must never: count a machine as no member because one of its two objects does not show the role.

/// Roles of a machine, by the labels of its Node and of its Machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Roles {
    /// It has the role of etcd. RKE2 and k3s give it to servers that run etcd, with or without the rest of
    /// the control plane.
    pub etcd: bool,
    /// It has the role of the control plane.
    pub control_plane: bool,
}

// === impl Roles ===

impl Roles {
    /// The roles that either object of a machine shows.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            etcd: self.etcd || other.etcd,
            control_plane: self.control_plane || other.control_plane,
        }
    }

    /// Whether at most one machine with such a role is remediated in a cluster at a time.
    pub fn is_control_plane(self) -> bool {
        self.etcd || self.control_plane
    }

    /// Whether the machine is a member of etcd. `shows_etcd`: some machine of the cluster has the role of etcd;
    /// where none has, etcd runs on the machines of the control plane, as with kubeadm.
    pub fn is_member(self, shows_etcd: bool) -> bool {
        match shows_etcd {
            true => self.etcd,
            false => self.control_plane,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f6_members_have_the_role_of_etcd_where_any_machine_has_it() {
        let etcd = Roles {
            etcd: true,
            control_plane: false,
        };
        let plane = Roles {
            etcd: false,
            control_plane: true,
        };
        let both = etcd.or(plane);
        let worker = Roles::default();
        for (roles, of_etcd, otherwise, exclusive) in [
            (etcd, true, false, true),
            (plane, false, true, true),
            (both, true, true, true),
            (worker, false, false, false),
        ] {
            assert_eq!(roles.is_member(true), of_etcd, "{roles:?}");
            assert_eq!(roles.is_member(false), otherwise, "{roles:?}");
            assert_eq!(roles.is_control_plane(), exclusive, "{roles:?}");
            assert_eq!(roles.or(worker), roles);
        }
    }
}
