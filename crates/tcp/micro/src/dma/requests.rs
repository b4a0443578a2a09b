//! What an engine asks for: packets cut into requests, and what each touches on both sides (vISA book, DMA
//! engine).

use tilewright_machine::tcp::Tcp;
use tilewright_tcp_isa::program::transfer::{Address, MemoryInstance, Transfer};

use crate::command::MicroError;

/// One side of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestSide {
    /// Units of HBM.
    Hbm {
        /// First byte of the first unit.
        unit_bytes: u64,
        /// One, or two where the request crosses a boundary.
        units: u64,
        /// First and last unit are not covered whole.
        partial: [bool; 2],
    },
    /// A network of data memory.
    Dm {
        /// Of the chip.
        network: usize,
        /// Cycles that the network moves it in.
        beats: u64,
    },
}

impl RequestSide {
    /// Accesses of HBM.
    pub(crate) fn accesses(&self) -> u64 {
        match self {
            RequestSide::Hbm { units, .. } => *units,
            RequestSide::Dm { .. } => 0,
        }
    }
}

/// Bytes that one request moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) source: RequestSide,
    pub(crate) target: RequestSide,
}

/// All requests of a transfer in the order of its loops.
pub(crate) fn requests(machine: &Tcp, transfer: &Transfer, most: u64) -> Result<Vec<Request>, MicroError> {
    let packet_requests = transfer.packet.div_ceil(machine.tdma.request_bytes.max(1));
    let too_many = MicroError::TooLarge { what: "requests", most };
    let sizes: Vec<u64> = transfer.loops.iter().map(|each| each.size.fixed()).collect();
    let packets = sizes.iter().try_fold(1_u64, |all, &size| all.checked_mul(size)).ok_or(too_many)?;
    if packets.checked_mul(packet_requests).is_none_or(|all| all > most) {
        return Err(too_many);
    }
    let mut list = Vec::new();
    for packet in 0..packets {
        let (source, target) = packet_offsets(transfer, &sizes, packet);
        let mut cut = 0;
        while cut < transfer.packet {
            let bytes = (transfer.packet - cut).min(machine.tdma.request_bytes);
            let at = |base: Address, offset: i64| base.0.wrapping_add_signed(offset).wrapping_add(cut);
            list.push(Request {
                source: side(machine, Address(at(transfer.source, source)), bytes)?,
                target: side(machine, Address(at(transfer.target, target)), bytes)?,
            });
            cut += bytes;
        }
    }
    Ok(list)
}

fn packet_offsets(transfer: &Transfer, sizes: &[u64], packet: u64) -> (i64, i64) {
    let (mut source, mut target, mut rest) = (0_i64, 0_i64, packet);
    for (each, &size) in transfer.loops.iter().zip(sizes).rev() {
        let at = i64::try_from(rest % size.max(1)).unwrap_or(0);
        source = source.wrapping_add(at.wrapping_mul(each.source));
        target = target.wrapping_add(at.wrapping_mul(each.target));
        rest /= size.max(1);
    }
    (source, target)
}

fn side(machine: &Tcp, address: Address, bytes: u64) -> Result<RequestSide, MicroError> {
    let located = address.locate().ok_or(MicroError::NoMemory(address.0))?;
    match located.medium {
        MemoryInstance::Hbm => {
            let unit = machine.hbm.access_bytes;
            let end = located.offset + bytes;
            let (first, last) = (located.offset / unit, (end - 1) / unit);
            Ok(RequestSide::Hbm {
                unit_bytes: first * unit,
                units: last - first + 1,
                partial: [
                    !located.offset.is_multiple_of(unit) || end < (first + 1) * unit,
                    !end.is_multiple_of(unit) || located.offset > last * unit,
                ],
            })
        }
        MemoryInstance::Dm { slice } => {
            let network_slices = machine.pe.slices / machine.pe.dmns.max(1);
            let network = usize::try_from(slice / network_slices.max(1)).unwrap_or(usize::MAX);
            Ok(RequestSide::Dm { network, beats: bytes.div_ceil(machine.dmn.bandwidth_bytes_per_cycle) })
        }
        MemoryInstance::Spm { .. } => Err(MicroError::NoMemory(address.0)),
    }
}
