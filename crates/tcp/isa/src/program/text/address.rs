//! Addresses, PEs, and the memories that they name.

use tilewright_base::Diagnostic;
use tilewright_ir::args::shortened;
use tilewright_ir::{Args, Bracket, Read, Sign, Word};

use super::loops::number_next;
use crate::program::exec::Memory;
use crate::program::tensor::TensorPlace;
use crate::program::transfer::{Address, MemoryInstance, MemoryLocation};

const FORMS: &str = "hbm+BYTE, dm[SLICE]+BYTE, spm[PE]+BYTE, or chip1.hbm+BYTE";

/// An address of the one space, or a bare number.
pub(super) fn read_address(args: &mut Args<'_>) -> Read<Address> {
    if number_next(args) {
        return args.unsigned("an address").map(Address);
    }
    let start = args.here();
    let located = read_located(args)?;
    let address = Address::checked(located);
    address.ok_or_else(|| {
        let complaint = Diagnostic::error("program/address", "the address space has no such byte");
        Box::new(
            complaint
                .at(start, "")
                .allowed("slices and PEs at their virtual stride, bytes below it")
                .instead("a smaller slice, PE, chip or byte"),
        )
    })
}

pub(super) fn print_address(address: Address) -> String {
    match address.locate() {
        Some(located) => print_located(located),
        None => format!("{:#x}", address.0),
    }
}

fn read_located(args: &mut Args<'_>) -> Read<MemoryLocation> {
    let word = args.word(FORMS)?;
    let (chip, memory) = read_chip(word)?;
    let medium = match memory {
        "hbm" => MemoryInstance::Hbm,
        "dm" => MemoryInstance::Dm { slice: read_index(args, "[SLICE]")? },
        "spm" => MemoryInstance::Spm { pe: read_index(args, "[PE]")? },
        _ => return Err(wrong_word(word, "a memory", FORMS, "dm[0]+0x0")),
    };
    let offset = if args.eat(Sign::Plus) { args.unsigned("a byte offset")? } else { 0 };
    Ok(MemoryLocation { chip, medium, offset })
}

fn print_located(located: MemoryLocation) -> String {
    let chip = print_chip(located.chip);
    let offset = located.offset;
    match located.medium {
        MemoryInstance::Hbm => format!("{chip}hbm+{offset:#x}"),
        MemoryInstance::Dm { slice } => format!("{chip}dm[{slice}]+{offset:#x}"),
        MemoryInstance::Spm { pe } => format!("{chip}spm[{pe}]+{offset:#x}"),
    }
}

fn read_index(args: &mut Args<'_>, wanted: &str) -> Read<u64> {
    let mut inner = args.bracketed(Bracket::Square, wanted)?;
    let index = inner.unsigned(wanted)?;
    inner.done()?;
    Ok(index)
}

/// The memory of a tensor: any byte offset, and no scratchpad.
pub(super) fn read_place(args: &mut Args<'_>) -> Read<TensorPlace> {
    let start = args.here();
    let MemoryLocation { chip, medium, offset: base } = read_located(args)?;
    match medium {
        MemoryInstance::Hbm => Ok(TensorPlace::Hbm { chip, base }),
        MemoryInstance::Dm { slice } => Ok(TensorPlace::Dm { chip, slice, base }),
        MemoryInstance::Spm { .. } => {
            let complaint = Diagnostic::error("program/address", "a tensor in a scratchpad").at(start, "");
            Err(Box::new(complaint.allowed("hbm+BYTE or dm[SLICE]+BYTE").instead("dm[0]+0x0")))
        }
    }
}

pub(super) fn print_place(place: TensorPlace) -> String {
    print_located(match place {
        TensorPlace::Hbm { chip, base } => MemoryLocation { chip, medium: MemoryInstance::Hbm, offset: base },
        TensorPlace::Dm { chip, slice, base } => {
            MemoryLocation { chip, medium: MemoryInstance::Dm { slice }, offset: base }
        }
    })
}

/// `pe0` or `chip1.pe0`, as chip and PE.
pub(super) fn read_pe(args: &mut Args<'_>) -> Read<(u64, u64)> {
    let word = args.word("a PE, such as pe0 or chip1.pe0")?;
    let (chip, pe) = read_chip(word)?;
    let number = numbered(pe, "pe");
    Ok((chip, number.ok_or_else(|| wrong_word(word, "a PE", "pe0, pe1, .. or chip1.pe0", "pe0"))?))
}

pub(super) fn print_pe(chip: u64, pe: u64) -> String {
    format!("{}pe{pe}", print_chip(chip))
}

/// Splits `chip1.` off.
fn read_chip<'t>(word: Word<'t>) -> Read<(u64, &'t str)> {
    match word.text.split_once('.') {
        Some((chip, rest)) => {
            let number = numbered(chip, "chip");
            Ok((
                number.ok_or_else(|| {
                    wrong_word(word, "on a chip", "chip0, chip1, .. before the dot", "chip1.pe0, chip1.hbm")
                })?,
                rest,
            ))
        }
        None => Ok((0, word.text)),
    }
}

fn print_chip(chip: u64) -> String {
    if chip == 0 { String::new() } else { format!("chip{chip}.") }
}

fn numbered(text: &str, prefix: &str) -> Option<u64> {
    let digits = text.strip_prefix(prefix)?;
    if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}

fn wrong_word(word: Word<'_>, what: &str, allowed: &str, instead: &str) -> Box<Diagnostic> {
    let message = format!("`{}` is not {what}", shortened(word.text));
    let complaint = Diagnostic::error("program/address", message).at(word.span, "").allowed(allowed);
    Box::new(complaint.instead(instead))
}

/// `dm`, `trf(LANES)` or `vrf`.
pub(super) fn read_memory(args: &mut Args<'_>) -> Read<Memory> {
    const MEMORIES: [(&str, Memory); 3] =
        [("dm", Memory::Dm), ("trf", Memory::Trf { lanes: 0 }), ("vrf", Memory::Vrf)];
    match args.one_of("memory", &MEMORIES)? {
        Memory::Trf { .. } => {
            let mut inner = args.bracketed(Bracket::Round, "(LANES)")?;
            let lanes = inner.unsigned("a number of lanes")?;
            inner.done()?;
            Ok(Memory::Trf { lanes })
        }
        other => Ok(other),
    }
}

pub(super) fn print_memory(memory: Memory) -> String {
    match memory {
        Memory::Dm => "dm".to_string(),
        Memory::Trf { lanes } => format!("trf({lanes})"),
        Memory::Vrf => "vrf".to_string(),
    }
}
