//! `--from [INPUT=]MEMORY`: the memories in which inputs start.

use crate::outcome::Outcome;

/// Which inputs start in off-chip memory.
pub(crate) fn from_hbm(texts: &[String]) -> Result<[bool; 2], Outcome> {
    let mut from = [false; 2];
    for text in texts {
        let (input, memory) = text.split_once('=').map_or((None, text.as_str()), |(a, b)| (Some(a), b));
        let which = match input {
            None => [true, true],
            Some("in0") => [true, false],
            Some("in1") => [false, true],
            Some(_) => [false, false],
        };
        let known = matches!(memory, "hbm" | "dm") && which != [false, false];
        if !known {
            return Err(Outcome::usage(&format!(
                "--from {text}\n  = allowed: hbm, dm, in0=hbm, in1=hbm, in0=dm, in1=dm\n  = instead: --from \
                 in1=hbm"
            )));
        }
        from.iter_mut().zip(which).filter(|(_, of)| *of).for_each(|(from, _)| *from = memory == "hbm");
    }
    Ok(from)
}
