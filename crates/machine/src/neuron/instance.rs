//! Instances of Neuron devices: the table `machines/instances.toml`, read and checked.
//!
//! Counts, wiring and rates are those of the vendor's instance pages; each row says where it is from and what
//! of it is assumed.

use std::sync::OnceLock;
use tilewright_base::invariant::OrBroken;

use serde::Deserialize;

/// Devices of a server, or of several that are joined, and how they are wired.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// Its name, as the vendor sells it.
    pub name: String,
    /// Machine file of its devices.
    pub chip: String,
    /// Devices of a server along each direction of a torus; one direction is a ring. Empty behind a switch.
    #[serde(default)]
    pub torus: Vec<u64>,
    /// Devices behind a switch; 0 if they are wired to each other.
    #[serde(default)]
    pub switch: u64,
    /// Servers in a ring of their own, device to device.
    #[serde(default = "one")]
    pub servers: u64,
    /// Rate of a link inside a server, one way; 0 if there is none.
    #[serde(default)]
    pub link_bytes_per_s: u64,
    /// Rate of a link between servers, one way; 0 if there is none.
    #[serde(default)]
    pub server_link_bytes_per_s: u64,
    /// Where the row is from, as `kind: place`.
    pub source: String,
}

const fn one() -> u64 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InstanceTable {
    instance: Vec<Instance>,
}

/// Most devices of an instance.
const MOST_DEVICES: u64 = 4096;

impl Instance {
    /// One device alone, of a chip that no row has.
    pub fn single(chip: &str) -> Instance {
        Instance {
            name: format!("one {chip}"),
            chip: chip.to_owned(),
            torus: vec![1],
            switch: 0,
            servers: 1,
            link_bytes_per_s: 0,
            server_link_bytes_per_s: 0,
            source: "assumption: no instance of it is known".to_owned(),
        }
    }

    /// Devices of all servers.
    pub fn devices(&self) -> u64 {
        if self.switch > 0 {
            return self.switch;
        }
        self.torus.iter().fold(self.servers, |product, &size| product.saturating_mul(size))
    }

    /// What is wrong with the row; nothing if it can stand.
    fn fault(&self) -> Option<String> {
        let devices = self.devices();
        let wired = devices > self.servers;
        let complaint = if self.torus.is_empty() == (self.switch == 0) {
            "`torus` or `switch`, one of them"
        } else if devices == 0 || devices > MOST_DEVICES {
            "1 to 4096 devices"
        } else if wired && self.link_bytes_per_s == 0 {
            "a rate of the links, `link_bytes_per_s`"
        } else if self.servers > 1 && self.server_link_bytes_per_s == 0 {
            "a rate between servers, `server_link_bytes_per_s`"
        } else if !["vendor documentation: ", "assumption: "].iter().any(|kind| self.source.starts_with(kind))
        {
            "a source, `vendor documentation: place` or `assumption: reason`"
        } else {
            return None;
        };
        Some(format!("instance `{}` needs {complaint}", self.name))
    }
}

/// Why a table of instances cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceError {
    /// It is no table of instances.
    Syntax(String),
    /// Devices and wires of an instance do not fit.
    Wiring(String),
}

impl std::error::Error for InstanceError {}

impl std::fmt::Display for InstanceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (InstanceError::Syntax(what) | InstanceError::Wiring(what)) = self;
        f.write_str(what)
    }
}

/// Reads a table of instances.
///
/// # Errors
/// No table of instances, or one whose wiring does not fit.
pub fn read_instances(text: &str) -> Result<Vec<Instance>, InstanceError> {
    let read = toml::from_str(text);
    let table: InstanceTable = read.map_err(|error| InstanceError::Syntax(error.message().to_owned()))?;
    let mut rows = table.instance.iter();
    match rows.find_map(Instance::fault) {
        Some(fault) => Err(InstanceError::Wiring(fault)),
        None => Ok(table.instance),
    }
}

/// The instances that come with the project, smaller ones of a chip first.
pub fn instances() -> &'static [Instance] {
    static TABLE: OnceLock<Vec<Instance>> = OnceLock::new();
    // A test reads the table, so that it is never empty.
    TABLE.get_or_init(|| {
        read_instances(include_str!("../../../../machines/instances.toml"))
            .or_broken("the instances that come with the project are valid")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole_and_in_order() {
        let rows = read_instances(include_str!("../../../../machines/instances.toml")).expect("it reads");
        assert_eq!(rows.len(), 12);
        for pair in rows.windows(2).filter(|pair| pair[0].chip == pair[1].chip) {
            assert!(pair[0].devices() <= pair[1].devices(), "{} before {}", pair[0].name, pair[1].name);
        }
        for row in &rows {
            assert!(crate::builtin(&row.chip).is_some(), "{} is of a machine that is not there", row.name);
        }
        let devices = |name: &str| rows.iter().find(|row| row.name == name).map(Instance::devices);
        assert_eq!(devices("inf2.48xlarge"), Some(12));
        assert_eq!(devices("trn1.32xlarge"), Some(16));
        assert_eq!(devices("trn2-ultraserver"), Some(64));
        assert_eq!(devices("trn3-ultraserver-gen2"), Some(144));
    }

    #[test]
    fn rows_that_cannot_stand_are_refused() {
        let row = |rest: &str| {
            let text = format!(
                "[[instance]]\nname = \"a\"\nchip = \"trainium1\"\nsource = \"assumption: a\"\n{rest}"
            );
            read_instances(&text)
        };
        assert!(row("torus = [1]").is_ok());
        let refused = |rest: &str| row(rest).expect_err(rest).to_string();
        assert!(refused("").contains("`torus` or `switch`"));
        assert!(refused("torus = [2]\nswitch = 2").contains("`torus` or `switch`"));
        assert!(refused("torus = [0]").contains("1 to 4096"));
        assert!(refused("torus = [4, 4]").contains("link_bytes_per_s"));
        assert!(refused("torus = [4]\nlink_bytes_per_s = 1\nservers = 2").contains("between servers"));
        assert!(refused("torus = [1]\nlinks = 2").contains("unknown field"));
    }
}
