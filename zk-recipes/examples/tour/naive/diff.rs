//! The lines by which two programs differ.
//!
//! The longest common subsequence, in a table: the programs are short. Knows nothing of locks.

/// A line of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line<'t> {
    Both(&'t str),
    Removed(&'t str),
    Added(&'t str),
    /// Here lines are left out that both have.
    Gap,
}

/// The changed lines, each with up to `context` lines around it.
pub(crate) fn changes<'t>(old: &'t str, new: &'t str, context: usize) -> Vec<Line<'t>> {
    let lines = compare(old, new);
    let is_changed = |line: &Line<'_>| !matches!(line, Line::Both(_));
    let mut shown = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let first = index.saturating_sub(context);
        let is_near = lines.iter().skip(first).take(index - first + context + 1).any(is_changed);
        match (is_near, shown.last()) {
            (true, _) => shown.push(*line),
            (false, Some(Line::Gap)) => {}
            (false, _) => shown.push(Line::Gap),
        }
    }
    shown
}

/// All lines of both.
fn compare<'t>(old: &'t str, new: &'t str) -> Vec<Line<'t>> {
    let (old, new) = (old.lines().collect::<Vec<_>>(), new.lines().collect::<Vec<_>>());
    // How many lines the rests of both have in common, by the lines that were taken from each.
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    let at = |common: &Vec<Vec<usize>>, i: usize, j: usize| {
        common.get(i).and_then(|row| row.get(j)).copied().unwrap_or_default()
    };
    for (i, old) in old.iter().enumerate().rev() {
        for (j, new) in new.iter().enumerate().rev() {
            let best = match old == new {
                true => 1 + at(&common, i + 1, j + 1),
                false => at(&common, i + 1, j).max(at(&common, i, j + 1)),
            };
            if let Some(cell) = common.get_mut(i).and_then(|row| row.get_mut(j)) {
                *cell = best;
            }
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    loop {
        let line = match (old.get(i), new.get(j)) {
            (Some(old), Some(new)) if old == new => Line::Both(old),
            (Some(old), new) if new.is_none() || at(&common, i + 1, j) >= at(&common, i, j + 1) => {
                Line::Removed(old)
            }
            (_, Some(new)) => Line::Added(new),
            (_, None) => return lines,
        };
        i += usize::from(!matches!(line, Line::Added(_)));
        j += usize::from(!matches!(line, Line::Removed(_)));
        lines.push(line);
    }
}
