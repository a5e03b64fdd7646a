//! From the request to a host that is held: nothing is switched here.

use super::{
    super::{Because, HostView, Mode, NodeMark, State, Step},
    Command, Cx, Decision, Outcome,
};

impl Cx<'_> {
    /// Everything that must hold before anything is touched (A1).
    pub(super) fn pending(&self, mut s: State) -> Decision {
        let o = self.o;
        if o.request.deleting {
            return if s.step == Step::Pending {
                self.leave(s, Because::Withdrawn, Outcome::Withdrawn)
            } else {
                self.abort(s, Because::Withdrawn)
            };
        }
        if s.step == Step::Retrying && self.recovered() {
            s.record_attempt(Because::Recovered, self.now);
            return self.to(s, Step::Succeeded, Because::Recovered);
        }
        let host = match self.ready_to_begin() {
            Ok(host) => host,
            Err(why @ Because::HostOffline(_)) => return self.abort(s, why),
            Err(why) => return self.recheck(s, why),
        };
        if !o.request.finalizer {
            return self.act(s, Because::Started, Command::AddFinalizer);
        }
        s.mode = match &o.bmh {
            Some(bmh) if !bmh.detached => Mode::Cooperative,
            _ => Mode::Direct,
        };
        s.host = Some(host);
        self.mark_node(&mut s);
        self.to(s, Step::Holding, Because::Started)
    }

    fn ready_to_begin(&self) -> Result<super::super::HostRef, Because> {
        let o = self.o;
        if let Err(e) = &o.request.policy {
            return Err(Because::InvalidSpec(e.to_string()));
        }
        if o.request.paused {
            return Err(Because::Paused);
        }
        if o.machine.is_none() {
            return Err(Because::MachineNotFound("the Machine is gone".into()));
        }
        let host = match &o.host {
            HostView::Found(host) => host.clone(),
            HostView::NotFound(why) => return Err(why.clone()),
        };
        let in_the_way = self
            .offline()
            .or_else(|| self.host_not_fit())
            .or(o.conflict.clone());
        if let Some(why) = in_the_way {
            return Err(why);
        }
        match self.agent_down() {
            Some(why) => Err(Because::AgentUnreachable(why.into())),
            None => Ok(host),
        }
    }

    fn host_not_fit(&self) -> Option<Because> {
        let bmh = self.o.bmh.as_ref()?;
        let name = bmh.name.clone();
        if bmh.deleting {
            return Some(Because::HostDeleting(name));
        }
        if bmh.paused {
            return Some(Because::HostPaused(name));
        }
        if bmh.disable_power_off {
            return Some(Because::UnsupportedHost(format!(
                "BareMetalHost {name} has spec.disablePowerOff"
            )));
        }
        if bmh.servicing {
            return Some(Because::HostServicing(name));
        }
        // Elsewhere baremetal-operator ignores the hold key and would switch the host on again.
        if !bmh.detached && !bmh.provisioned {
            return Some(Because::HostNotProvisioned(name));
        }
        None
    }

    pub(super) fn mark_node(&self, s: &mut State) {
        if let Some(node) = self.node() {
            s.node = Some(NodeMark {
                name: node.name.clone(),
                uid: node.uid.clone(),
                boot_id: node.boot_id.clone(),
                system_uuid: node.system_uuid.clone(),
            });
        }
    }

    /// F2: intent is durable before the power-off.
    pub(super) fn holding(&self, mut s: State) -> Decision {
        if self.o.request.deleting {
            return self.abort(s, Because::Withdrawn);
        }
        if let Some(why) = self.offline() {
            return self.abort(s, why);
        }
        if self.o.bmh.is_some() && !self.holds() {
            return self.act(s, Because::Holding, Command::AddHold);
        }
        s.agent_holds = true;
        self.to(s, Step::PoweringOff, Because::PowerOffRunning)
    }
}
