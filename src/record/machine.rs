//! Decides whether records are from the same machine: [`HostFacts::is_machine_of`], [`Machine`]. A host's name is not
//! enough: machines in the cloud share names, and each container has another name.

use super::provenance::{HostFacts, MachineIds};

impl HostFacts {
    /// Whether `other` is the same machine according to ids; `None` if they do not decide. The most reliable come
    /// first:
    ///
    /// 1. the hardware's id
    /// 2. the boot: hosts with the same boot share a kernel, as the containers of a machine do
    /// 3. the installed system's id: a different one means another machine. An equal one decides only together with the
    ///    name, since copies of a virtual machine have it too.
    fn same_machine_by_ids(&self, other: &HostFacts) -> Option<bool> {
        let ids = |of: fn(&MachineIds) -> Option<&str>| {
            of(self.machine.as_ref()?).zip(of(other.machine.as_ref()?))
        };
        if let Some((one, two)) = ids(|ids| ids.hardware.as_deref()) {
            return Some(one == two);
        }
        if self.boot_id.is_some() && self.boot_id == other.boot_id {
            return Some(true);
        }
        let (one, two) = ids(|ids| ids.system.as_deref())?;
        Some(one == two && self.hostname == other.hostname)
    }

    /// Whether `other` is the same machine. If ids do not decide, as in older records, the name does.
    pub fn is_machine_of(&self, other: &HostFacts) -> bool {
        self.same_machine_by_ids(other).unwrap_or(self.hostname == other.hostname)
    }

    /// The first digits of the most reliable id of its machine, which distinguish it from others of the same name.
    pub fn machine_text(&self) -> Option<&str> {
        let MachineIds { hardware, system } = self.machine.as_ref()?;
        let id = hardware.as_ref().or(system.as_ref())?;
        Some(id.get(..8).unwrap_or(id))
    }
}

/// One machine, as the set of its hosts in records. "Same machine" is not transitive: two machines of one name can both
/// match an older record. So a host that differs from any host of the set does not belong to it.
#[derive(Clone, Debug)]
pub struct Machine<'a> {
    /// Each with another name or another id.
    hosts: Vec<&'a HostFacts>,
}

impl<'a> Machine<'a> {
    /// The machine of `host`.
    pub fn of(host: &'a HostFacts) -> Self {
        Machine { hosts: vec![host] }
    }

    /// Adds `host` if it is the same machine, and returns whether it is.
    pub fn admits(&mut self, host: &'a HostFacts) -> bool {
        if self.hosts.iter().any(|known| has_equal_ids(known, host)) {
            return true;
        }
        let is_other = self.hosts.iter().any(|known| known.same_machine_by_ids(host) == Some(false));
        let is_same = !is_other && self.hosts.iter().any(|known| known.is_machine_of(host));
        if is_same {
            self.hosts.push(host);
        }
        is_same
    }

    /// Its names, in the order of the records.
    pub fn names(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for host in &self.hosts {
            if !names.contains(&host.hostname.as_str()) {
                names.push(&host.hostname);
            }
        }
        names
    }

    /// The first digits of its most reliable id, if any record has one.
    pub fn id_text(&self) -> Option<&'a str> {
        self.hosts.iter().find_map(|host| host.machine_text())
    }
}

/// Whether names and ids are equal.
fn has_equal_ids(one: &HostFacts, two: &HostFacts) -> bool {
    (&one.hostname, &one.machine, &one.boot_id) == (&two.hostname, &two.machine, &two.boot_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host by its name, the id of its hardware, that of its system, and its boot; empty if unknown.
    fn host([name, hardware, system, boot]: [&str; 4]) -> HostFacts {
        let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let machine = MachineIds { hardware: known(hardware), system: known(system) };
        HostFacts {
            hostname: name.to_owned(),
            machine: Some(machine).filter(|machine| *machine != MachineIds::default()),
            boot_id: known(boot),
            ..HostFacts::default()
        }
    }

    #[test]
    fn machines_are_identified_by_more_than_their_name() {
        for (why, one, two, is_same) in [
            (
                "a name twice in a cloud",
                ["instance-1", "h1", "s", "b1"],
                ["instance-1", "h2", "s", "b2"],
                false,
            ),
            (
                "a name twice, no hardware id",
                ["instance-1", "", "s1", "b1"],
                ["instance-1", "", "s2", "b2"],
                false,
            ),
            ("two containers", ["c0ffee", "", "", "b"], ["decade", "", "", "b"], true),
            ("a container and its machine", ["c0ffee", "", "", "b"], ["box", "", "s", "b"], true),
            ("containers, booted in between", ["c0ffee", "h", "", "b1"], ["decade", "h", "", "b2"], true),
            ("copies of a machine", ["one", "", "s", "b1"], ["two", "", "s", "b2"], false),
            ("copies in memory have one boot", ["one", "h1", "s", "b"], ["one", "h2", "s", "b"], false),
            ("another boot", ["box", "", "s", "b1"], ["box", "", "s", "b2"], true),
            ("only root sees the hardware id", ["box", "h", "s", "b1"], ["box", "", "s", "b2"], true),
            ("an older record", ["box", "", "", ""], ["box", "h", "s", "b"], true),
            ("an older record of another name", ["book", "", "", ""], ["box", "h", "s", "b"], false),
            ("two older records", ["box", "", "", "b1"], ["box", "", "", "b2"], true),
        ] {
            let (one, two) = (host(one), host(two));
            assert_eq!(one.is_machine_of(&two), is_same, "{why}");
            assert_eq!(two.is_machine_of(&one), is_same, "{why}, the other way");
            assert!(one.is_machine_of(&one), "{why}");
        }
    }

    #[test]
    fn an_older_record_does_not_join_two_machines_of_its_name() {
        let older = host(["instance-1", "", "", ""]);
        let [first, second] = ["h1", "h2"].map(|id| host(["instance-1", id, "", ""]));
        let mut machine = Machine::of(&older);
        assert!(machine.admits(&first));
        assert!(!machine.admits(&second), "it is known to be another");
        assert!(machine.admits(&older) && machine.admits(&first));
        let container = HostFacts { boot_id: Some("b".into()), ..host(["c0ffee", "h1", "", "b"]) };
        assert!(machine.admits(&container));
        let booted = host(["decade", "", "", "b"]);
        assert!(machine.admits(&booted), "by the boot of the container");
        assert_eq!(machine.names(), ["instance-1", "c0ffee", "decade"]);
    }

    #[test]
    fn an_id_is_shortened_to_its_first_digits() {
        assert_eq!(
            host(["box", "0123456789abcdef", "fedcba9876543210", ""]).machine_text(),
            Some("01234567")
        );
        assert_eq!(host(["box", "", "fedcba9876543210", ""]).machine_text(), Some("fedcba98"));
        assert_eq!(host(["box", "", "", "b"]).machine_text(), None);
    }
}
