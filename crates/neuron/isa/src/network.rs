//! Devices of an instance, the links between them, and which rank is where
//! (docs/hardware-rules.md#instances-and-logical-cores and #collectives).
//!
//! Documented: devices, wiring and rates of the instances (`machines/instances.toml` says which of them are
//! assumed), and 1 to 2 us for a hop inside a server, 15 us between servers. Assumed: ranks take cores in
//! order, so that the first ranks share the first device; messages take the shortest way, direction by
//! direction, and forward where both ways round are as long; a link carries messages both ways at once, each
//! at its rate.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tilewright_base::invariant::{Exact, OrBroken};
use tilewright_machine::neuron::{Instance, instances};

use crate::Chip;
use crate::cost::collective::{CollectiveCost, CollectiveRequest};
use crate::refusal::{Refusal, rule};

/// One link of a way from device to device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Number of the link, one way.
    pub link: u32,
    /// Its rate.
    pub bytes_per_s: u64,
    /// Its latency.
    pub latency_ns: u64,
}

/// An instance with ranks on its cores.
#[derive(Debug)]
pub struct Network {
    /// The instance.
    pub instance: Instance,
    cores_per_device: u64,
    cores_per_rank: u64,
    hop_ns: u64,
    server_hop_ns: u64,
    /// Costs that were asked for: every rank of a collective asks the same.
    known: Mutex<BTreeMap<CollectiveRequest, CollectiveCost>>,
}

impl Network {
    /// The instance of that name, or the smallest that has as many cores, with this many ranks on it.
    ///
    /// # Errors
    /// If no instance has that name, it has other devices, or fewer cores than the ranks take.
    pub fn new(chip: &Chip, name: Option<&str>, ranks: u64, cores_per_rank: u64) -> Result<Network, Refusal> {
        let (cores_per_device, cores_per_rank) = (chip.neuron.chip.cores.max(1), cores_per_rank.max(1));
        let cores = |instance: &Instance| instance.devices().saturating_mul(cores_per_device);
        let need = ranks.saturating_mul(cores_per_rank);
        let of_chip: Vec<&Instance> = instances().iter().filter(|one| one.chip == chip.name).collect();
        let instance = match name {
            Some(name) => named(chip, name, &of_chip)?,
            None => match of_chip.iter().find(|one| cores(one) >= need).or(of_chip.last()) {
                Some(one) => (*one).clone(),
                None => Instance::single(&chip.name),
            },
        };
        let have = cores(&instance);
        rule(need <= have, || too_many(&instance, ranks, cores_per_rank, have, &of_chip, cores_per_device))?;
        let figures = &chip.neuron.collectives;
        let (hop_ns, server_hop_ns) = (figures.hop_ns, figures.server_hop_ns);
        let known = Mutex::default();
        Ok(Network { instance, cores_per_device, cores_per_rank, hop_ns, server_hop_ns, known })
    }

    /// The device of a rank.
    pub fn device(&self, rank: u32) -> u64 {
        u64::from(rank).exact_mul(self.cores_per_rank) / self.cores_per_device
    }

    /// The links from one device to another, in order; none within a device.
    pub fn route(&self, from: u64, to: u64) -> Vec<Hop> {
        if from == to {
            return Vec::new();
        }
        let hop = |device: u64, lanes: u64, lane: u64, bytes_per_s: u64, latency_ns: u64| Hop {
            link: u32::try_from(device.exact_mul(lanes).exact_add(lane))
                .or_broken("more links than are numbered"),
            bytes_per_s,
            latency_ns,
        };
        let rate = self.instance.link_bytes_per_s;
        if self.instance.switch > 0 {
            return vec![hop(from, 2, 0, rate, self.hop_ns), hop(to, 2, 1, rate, 0)];
        }
        let sizes = self.sizes();
        let (mut here, there) = (coordinates(&sizes, from), coordinates(&sizes, to));
        let lanes = sizes.len() as u64 * 2;
        let mut hops = Vec::new();
        for (at, &size) in sizes.iter().enumerate() {
            let forward = (there[at] + size - here[at]) % size;
            let (steps, back) = if forward * 2 <= size { (forward, false) } else { (size - forward, true) };
            let (rate, latency_ns) = match at {
                0 => (self.instance.server_link_bytes_per_s, self.server_hop_ns),
                _ => (rate, self.hop_ns),
            };
            for _ in 0..steps {
                let lane = at as u64 * 2 + u64::from(back);
                hops.push(hop(number(&sizes, &here), lanes, lane, rate, latency_ns));
                here[at] = (here[at] + if back { size - 1 } else { 1 }) % size;
            }
        }
        hops
    }

    /// Place of a device on a ring through all of them, in which followers are neighbours: rows there and
    /// back.
    pub fn place_on_ring(&self, device: u64) -> u64 {
        if self.instance.switch > 0 {
            return device;
        }
        let sizes = self.sizes();
        sizes.iter().zip(coordinates(&sizes, device)).fold(0, |place, (&size, at)| {
            let mirrored = if place % 2 == 1 { size - 1 - at } else { at };
            place * size + mirrored
        })
    }

    /// The answer to a question that was asked before, or the one that `find` finds.
    pub(crate) fn cached_cost(
        &self,
        request: CollectiveRequest,
        find: impl FnOnce(&CollectiveRequest) -> CollectiveCost,
    ) -> CollectiveCost {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(&request) {
            return found.clone();
        }
        let found = find(&request);
        known.insert(request, found.clone());
        found
    }

    /// Devices along each direction: servers first.
    fn sizes(&self) -> Vec<u64> {
        std::iter::once(self.instance.servers).chain(self.instance.torus.iter().copied()).collect()
    }
}

fn named(chip: &Chip, name: &str, of_chip: &[&Instance]) -> Result<Instance, Refusal> {
    if let Some(found) = of_chip.iter().find(|one| one.name == name) {
        return Ok((*found).clone());
    }
    let names: Vec<&str> = of_chip.iter().map(|one| one.name.as_str()).collect();
    let other = instances().iter().find(|one| one.name == name);
    Err(Refusal::new(
        "neuron/instance",
        match other {
            Some(other) => format!("{name}, which has {} devices, with {}", other.chip, chip.name),
            None => format!("an instance called {name}"),
        },
        if names.is_empty() { "no instance of this chip is known".to_owned() } else { names.join(", ") },
        match other {
            Some(other) => format!("run on chip {}, or name an instance of {}", other.chip, chip.name),
            None => "name one of them, or none for the smallest that has as many cores".to_owned(),
        },
    ))
}

fn too_many(
    instance: &Instance,
    ranks: u64,
    cores_per_rank: u64,
    have: u64,
    of_chip: &[&Instance],
    cores_per_device: u64,
) -> Refusal {
    let largest =
        of_chip.last().filter(|one| one.name != instance.name && one.devices() > instance.devices());
    Refusal::new(
        "neuron/instance",
        format!("{ranks} ranks of {cores_per_rank} cores on {}", instance.name),
        format!(
            "{} ranks: {} devices of {cores_per_device} cores",
            have / cores_per_rank,
            instance.devices()
        ),
        match largest {
            Some(one) => format!("start fewer ranks, or name a larger instance, up to {}", one.name),
            None => "start fewer ranks; more than one server is not modelled".to_owned(),
        },
    )
}

/// Where a device is along each direction, the last of which is counted first.
fn coordinates(sizes: &[u64], mut device: u64) -> Vec<u64> {
    let mut found: Vec<u64> = sizes
        .iter()
        .rev()
        .map(|&size| {
            let at = device % size.max(1);
            device /= size.max(1);
            at
        })
        .collect();
    found.reverse();
    found
}

fn number(sizes: &[u64], coordinates: &[u64]) -> u64 {
    sizes.iter().zip(coordinates).fold(0, |device, (&size, &at)| device * size + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::tests_chip;

    fn network(chip: &str, name: &str) -> Network {
        Network::new(&tests_chip(chip), Some(name), 2, 1).unwrap()
    }

    fn hops(network: &Network, from: u64, to: u64) -> usize {
        network.route(from, to).len()
    }

    #[test]
    fn the_torus_is_wired_as_the_instance_page_says() {
        let torus = network("trainium1", "trn1.32xlarge");
        let near: Vec<u64> = (0..16).filter(|&device| hops(&torus, 0, device) == 1).collect();
        assert_eq!(near, [1, 3, 4, 12]);
        assert_eq!(hops(&torus, 0, 10), 4, "the farthest device");
        assert_eq!(torus.route(3, 4).len(), 2, "round the end of the row and one row on");
    }

    #[test]
    fn a_ring_goes_the_shorter_way_round() {
        let ring = network("inferentia2", "inf2.48xlarge");
        let from_zero: Vec<usize> = (0..12).map(|device| hops(&ring, 0, device)).collect();
        assert_eq!(from_zero, [0, 1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1]);
        assert_ne!(ring.route(0, 1)[0].link, ring.route(0, 11)[0].link, "one link to each neighbour");
        assert_ne!(ring.route(0, 1)[0].link, ring.route(1, 0)[0].link, "one for each direction");
    }

    #[test]
    fn followers_on_the_ring_through_a_torus_are_neighbours() {
        for (chip, name) in [("trainium1", "trn1.32xlarge"), ("trainium2", "trn2-ultraserver")] {
            let torus = network(chip, name);
            let mut devices: Vec<u64> = (0..torus.instance.devices()).collect();
            devices.sort_by_key(|&device| torus.place_on_ring(device));
            devices.push(devices[0]);
            assert!(devices.windows(2).all(|pair| hops(&torus, pair[0], pair[1]) == 1), "{devices:?}");
        }
    }

    #[test]
    fn servers_are_joined_by_slower_links() {
        let joined = network("trainium2", "trn2-ultraserver");
        let hop = joined.route(0, 16)[0];
        assert_eq!((hop.bytes_per_s, hop.latency_ns), (128_000_000_000, 15_000));
        assert_eq!(joined.route(0, 1)[0].bytes_per_s, 256_000_000_000);
    }

    #[test]
    fn a_switch_is_one_step_for_all() {
        let switched = network("trainium3", "trn3-ultraserver-gen1");
        for device in 1..64 {
            let route = switched.route(0, device);
            assert_eq!(route.iter().map(|hop| hop.latency_ns).sum::<u64>(), 1500);
            assert_eq!(route[0].link, 0, "its own port");
        }
    }

    #[test]
    fn the_smallest_instance_with_as_many_cores_is_taken() {
        let name = |chip: &str, ranks: u64, cores: u64| {
            Network::new(&tests_chip(chip), None, ranks, cores).unwrap().instance.name
        };
        assert_eq!(name("inferentia2", 2, 1), "inf2.xlarge");
        assert_eq!(name("inferentia2", 12, 1), "inf2.24xlarge");
        assert_eq!(name("trainium1", 3, 1), "trn1.32xlarge");
        assert_eq!(name("trainium2", 64, 2), "trn2.48xlarge");
        assert_eq!(name("trainium2", 65, 2), "trn2-ultraserver");
        assert_eq!(name("toy-neuron", 1, 1), "one toy-neuron");
    }

    #[test]
    fn ranks_take_cores_in_order() {
        let single = Network::new(&tests_chip("trainium2"), None, 128, 1).unwrap();
        assert_eq!([single.device(0), single.device(7), single.device(8), single.device(127)], [0, 0, 1, 15]);
        let pairs = Network::new(&tests_chip("trainium2"), None, 64, 2).unwrap();
        assert_eq!([pairs.device(3), pairs.device(4), pairs.device(63)], [0, 1, 15]);
    }

    #[test]
    fn what_no_instance_has_is_refused() {
        let refused = |chip: &str, name: Option<&str>, ranks: u64| {
            Network::new(&tests_chip(chip), name, ranks, 1).unwrap_err()
        };
        let many = refused("trainium1", Some("trn1.2xlarge"), 3);
        assert_eq!(many.code, "neuron/instance");
        assert!(many.asked.contains("3 ranks") && many.allowed.starts_with("2 ranks"));
        assert!(many.instead.contains("trn1n.32xlarge"), "{}", many.instead);
        assert!(refused("trainium1", None, 33).instead.contains("more than one server"));
        assert!(refused("trainium1", Some("trn1.3xlarge"), 2).allowed.contains("trn1.2xlarge"));
        assert!(refused("trainium1", Some("inf2.xlarge"), 2).instead.contains("inferentia2"));
        assert!(refused("toy-neuron", None, 2).allowed.starts_with("1 ranks"));
    }
}
