//! Sweeps: `L=128..4096:x2` in `--dims`, `pe.slices=32..128:x2` in `--set`. Each combination is a search of
//! its own.

use crate::outcome::Outcome;

/// Most searches of one command.
const MOST: usize = 10_000;

/// One combination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SweepPoint {
    /// As `--dims` takes it.
    pub(crate) dims: Option<String>,
    /// As `--set` takes it.
    pub(crate) set: Vec<String>,
    /// What the sweep gave, in words.
    pub(crate) swept: Vec<String>,
}

impl SweepPoint {
    /// The file of one point of a sweep: with what was swept in its name, if anything was.
    pub(crate) fn file(&self, path: &str) -> String {
        if self.swept.is_empty() {
            return path.to_string();
        }
        let plain = |c: char| if c.is_ascii_alphanumeric() || "=._".contains(c) { c } else { '-' };
        let point: String = self.swept.join("-").chars().map(plain).collect();
        match path.rsplit_once('.').filter(|(_, extension)| !extension.contains('/')) {
            Some((stem, extension)) => format!("{stem}-{point}.{extension}"),
            None => format!("{path}-{point}"),
        }
    }
}

/// All combinations, the last entry running fastest.
pub(crate) fn settings(dims: Option<&str>, set: &[String]) -> Result<Vec<SweepPoint>, Outcome> {
    let mut settings = vec![SweepPoint { dims: None, set: Vec::new(), swept: Vec::new() }];
    for entry in dims.iter().flat_map(|dims| dims.split(',')) {
        settings = extended(settings, entry, |setting, value| {
            let before = setting.dims.take().map(|before| before + ",").unwrap_or_default();
            setting.dims = Some(before + value);
        })?;
    }
    for entry in set {
        settings = extended(settings, entry, |setting, value| setting.set.push(value.to_string()))?;
    }
    Ok(settings)
}

fn extended(
    settings: Vec<SweepPoint>,
    entry: &str,
    add: impl Fn(&mut SweepPoint, &str),
) -> Result<Vec<SweepPoint>, Outcome> {
    let values = values(entry)?;
    let mut all = Vec::with_capacity(settings.len() * values.len());
    for setting in settings {
        for value in &values {
            let mut next = setting.clone();
            add(&mut next, value);
            if values.len() > 1 {
                next.swept.push(value.clone());
            }
            all.push(next);
        }
    }
    if all.len() > MOST {
        return Err(Outcome::usage(&format!(
            "{} searches in one command\n  = allowed: {MOST}\n  = instead: fewer steps in `{entry}`",
            all.len()
        )));
    }
    Ok(all)
}

/// The values of an entry: one, unless it ends in a step.
fn values(entry: &str) -> Result<Vec<String>, Outcome> {
    let Some((range, step)) = entry.rsplit_once(':').filter(|(range, _)| range.contains("..")) else {
        return Ok(vec![entry.to_string()]);
    };
    let wrong = || {
        Outcome::usage(&format!(
            "`{entry}` is no sweep\n  = allowed: NAME=FROM..TO:xFACTOR with a factor above 1, \
             NAME=FROM..TO:+STEP with a step above 0, and FROM up to TO\n  = instead: L=128..4096:x2"
        ))
    };
    let (name, ends) = range.split_once('=').ok_or_else(wrong)?;
    let (from, to) = ends.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
    let (from, to) = (number(from)?, number(to)?);
    let next: Box<dyn Fn(u64) -> Option<u64>> = if let Some(factor) = step.strip_prefix('x') {
        let factor = number(factor)?;
        if factor < 2 {
            return Err(wrong());
        }
        Box::new(move |at| at.checked_mul(factor))
    } else {
        let step = number(step.strip_prefix('+').ok_or_else(wrong)?)?;
        if step == 0 {
            return Err(wrong());
        }
        Box::new(move |at| at.checked_add(step))
    };
    if from == 0 || from > to {
        return Err(wrong());
    }
    let steps = std::iter::successors(Some(from), |at| next(*at)).take_while(|at| *at <= to).take(MOST + 1);
    Ok(steps.map(|value| format!("{name}={value}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_combine() {
        let all = settings(Some("L=128..512:x2,D=64"), &["pe.slices=32..64:+32".to_string()]).unwrap();
        let dims: Vec<_> = all.iter().map(|setting| setting.dims.clone().unwrap()).collect();
        assert_eq!(
            dims,
            ["L=128,D=64", "L=128,D=64", "L=256,D=64", "L=256,D=64", "L=512,D=64", "L=512,D=64"]
        );
        assert_eq!(all[1].set, ["pe.slices=64"]);
        assert_eq!(all[1].swept, ["L=128", "pe.slices=64"]);
    }

    #[test]
    fn a_range_without_a_step_is_a_dynamic_axis() {
        assert_eq!(settings(Some("l=1..4096"), &[]).unwrap()[0].dims.as_deref(), Some("l=1..4096"));
        for bad in ["L=0..8:x2", "L=8..4:x2", "L=1..8:2", "L=a..8:x2", "..:x2", "L=1..8:x1", "L=1..8:+0"] {
            assert!(settings(Some(bad), &[]).is_err(), "{bad}");
        }
    }
}
