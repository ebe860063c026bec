//! Which member should have which shard: a function of their names alone, so that all members with
//! the same view agree without talking to each other.
//!
//! It is rendezvous hashing with a limit: each shard goes to the member with the highest score that
//! has room. So loads differ by at most one, and a change of members moves few shards more than it
//! must. Pure: knows no client.

/// The shards that should be with the member `id`.
///
/// The members must be sorted, and so must the shards. All members of a group must compute the
/// same, so a change of this function takes a new name for the folder of the members.
pub(super) fn shards_of<'s>(id: &str, members: &[&str], shards: &[&'s str]) -> Vec<&'s str> {
    let Some(least) = shards.len().checked_div(members.len()) else {
        return Vec::new();
    };
    // So many members have one more than the others.
    let mut with_more = shards.len() % members.len();
    let mut loads = members.iter().map(|member| (*member, 0)).collect::<Vec<_>>();
    let mut own = Vec::new();
    for &shard in shards {
        let limit = if with_more > 0 { least + 1 } else { least };
        let with_room = loads.iter_mut().filter(|(_, load)| *load < limit);
        let Some((member, load)) = with_room.max_by_key(|(member, _)| score(member, shard)) else {
            continue;
        };
        *load += 1;
        with_more -= usize::from(*load > least);
        if *member == id {
            own.push(shard);
        }
    }
    own
}

/// FNV-1a, and the end of SplitMix64, because the last bytes would change too few bits otherwise.
fn score(member: &str, shard: &str) -> u64 {
    let bytes = member.bytes().chain([0]).chain(shard.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn names(kind: &str, count: usize) -> Vec<String> {
        let mut names = (0..count).map(|number| format!("{kind}-{number}")).collect::<Vec<_>>();
        names.sort_unstable();
        names
    }

    /// Who has each shard.
    fn plan<'n>(members: &[&'n str], shards: &[&'n str]) -> BTreeMap<&'n str, &'n str> {
        let mut plan = BTreeMap::new();
        for member in members {
            for shard in shards_of(member, members, shards) {
                assert_eq!(plan.insert(shard, *member), None, "{shard} is with two");
            }
        }
        plan
    }

    fn texts(names: &[String]) -> Vec<&str> {
        names.iter().map(String::as_str).collect()
    }

    #[test]
    fn each_shard_is_with_one_member_and_loads_differ_by_at_most_one() {
        for (members, shards) in (1..12).flat_map(|members| (0..40).map(move |s| (members, s))) {
            let (members, shards) = (names("worker", members), names("shard", shards));
            let (members, shards) = (texts(&members), texts(&shards));
            assert_eq!(plan(&members, &shards).len(), shards.len());
            let loads = members.iter().map(|one| shards_of(one, &members, &shards).len());
            let loads = loads.collect::<Vec<_>>();
            let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
            assert!(most - least <= 1, "{loads:?}");
        }
    }

    #[test]
    fn a_member_that_goes_moves_few_shards_of_others() {
        let (all, shards) = (names("worker", 10), names("shard", 100));
        let (all, shards) = (texts(&all), texts(&shards));
        let before = plan(&all, &shards);
        let mut moved = 0;
        for gone in &all {
            let rest = all.iter().copied().filter(|one| one != gone).collect::<Vec<_>>();
            let after = plan(&rest, &shards);
            moved += shards.iter().filter(|shard| before[*shard] != after[*shard]).count();
        }
        // Ten of a hundred must move each time.
        assert!((100..200).contains(&moved), "{moved} moves in ten changes");
    }

    #[test]
    fn nobody_has_what_no_member_could_have() {
        assert_eq!(shards_of("a", &[], &["s"]), [""; 0]);
        assert_eq!(shards_of("a", &["b"], &["s"]), [""; 0]);
        assert_eq!(shards_of("a", &["a"], &[]), [""; 0]);
    }

    /// Members of two releases share the shards of one group.
    #[test]
    fn the_plan_is_the_same_in_all_releases() {
        let shards = names("s", 8);
        let of = |id| shards_of(id, &["a", "b", "c"], &texts(&shards)).join(" ");
        assert_eq!([of("a"), of("b"), of("c")], ["s-1 s-2 s-3", "s-4 s-5 s-6", "s-0 s-7"]);
    }
}
