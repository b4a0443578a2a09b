//! A machine in one number: what follows from its figures stays right only while they are the same.

use crate::load::LoadedMachine;

/// Start and factor of FNV-1a with 64 bits.
const FNV: (u64, u64) = (0xCBF2_9CE4_8422_2325, 0x100_0000_01B3);

impl LoadedMachine {
    /// A number that changes with every figure of the machine, and with nothing else: neither names nor
    /// sources count. It finds a change, not an attack.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = FNV.0;
        for figure in self.key_values() {
            let line = format!("{}.{}={:?}\n", figure.section, figure.key, figure.value);
            hash = line.bytes().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV.1));
        }
        hash
    }
}
