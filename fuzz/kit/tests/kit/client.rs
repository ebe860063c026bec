//! Clients that crash, hang or say something wrong.

use std::time::Duration;

use tokio::time::timeout;
use zk_fuzz_kit::hostile::{Campaign, Ending, Fault, Options, Report};

use crate::fragile::MODE;

/// Longer than any of these tests may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// This program itself, as a client with this weakness.
fn fragile(weakness: &str) -> Campaign {
    let program = std::env::current_exe().unwrap();
    let setting = format!("{MODE}={weakness}");
    let arguments = ["fragile::client", "--exact", "--nocapture"].map(Into::into);
    let command = [["env".into(), setting.into(), program.into_os_string()], arguments].concat();
    let mut campaign = Campaign::new(Options::new(command));
    campaign.options.patience = Duration::from_secs(2);
    campaign
}

async fn run(campaign: &Campaign) -> Report {
    timeout(DEADLINE, campaign.run(|_| {})).await.expect("it hangs").unwrap()
}

#[tokio::test]
async fn a_client_that_crashes_at_a_length_is_found_with_one_fault() {
    let mut campaign = fragile("trusts-lengths");
    let folder = tempfile::tempdir().unwrap();
    campaign.seeds = 0..=5;
    campaign.faults = vec![Fault::Length, Fault::Delay];
    campaign.folder = Some(folder.path().to_owned());
    let report = run(&campaign).await;
    let finding = report.findings.first().expect("a finding");
    assert!(matches!(&finding.ending, Ending::Crash(how) if how.contains("panicked")), "{finding}");
    assert!(finding.is_repeatable);
    let faults: Vec<_> = finding.faults.iter().map(|applied| applied.fault).collect();
    assert_eq!(faults, [Fault::Length], "{finding}");

    let file = |name: &str| folder.path().join(format!("client-{}/{name}", finding.seed));
    let recording = std::fs::File::open(file("recording.jsonl")).unwrap();
    let entries = zk_tap::recording::read(std::io::BufReader::new(recording)).unwrap();
    assert!(!entries.is_empty());
    assert!(std::fs::read_to_string(file("output.txt")).unwrap().contains("panicked"));

    // The place alone shows it again.
    campaign.seeds = finding.seed..=finding.seed;
    campaign.only = Some(finding.faults.iter().map(|applied| applied.place).collect());
    let again = run(&campaign).await;
    assert_eq!(again.findings[0].faults, finding.faults);
    assert_eq!(again.faults, 1);
}

#[tokio::test]
async fn a_client_that_never_gives_up_hangs() {
    let mut campaign = fragile("spins-at-the-end");
    campaign.seeds = 0..=1;
    campaign.faults = vec![Fault::Cut];
    campaign.options.patience = Duration::from_secs(1);
    let report = run(&campaign).await;
    let finding = report.findings.first().expect("a finding");
    assert_eq!((&finding.ending, finding.faults.len()), (&Ending::Hang, 1));
}

#[tokio::test]
async fn a_client_that_reads_what_nobody_wrote_is_wrong() {
    let mut campaign = fragile("invents");
    campaign.seeds = 0..=3;
    campaign.faults = vec![Fault::Split];
    let report = run(&campaign).await;
    let finding = report.findings.first().expect("a finding");
    assert!(matches!(&finding.ending, Ending::Wrong(what) if what.contains("/a never held")));

    // A lie excuses it. Not every seed has one.
    campaign.faults = vec![Fault::Event];
    let mut lies = 0;
    for seed in 0..=3 {
        campaign.seeds = seed..=seed;
        let report = run(&campaign).await;
        assert_eq!(report.findings.is_empty(), report.faults > 0, "{report:?}");
        lies += report.faults;
    }
    assert!(lies > 0);
}

#[tokio::test]
async fn a_client_that_takes_care_survives_each_fault_and_each_seed_is_the_same_again() {
    let mut campaign = fragile("");
    campaign.seeds = 0..=14;
    let one = run(&campaign).await;
    assert!(one.findings.is_empty(), "{}", one.findings[0]);
    assert_eq!(one.seeds, 15);
    assert!(one.faults > 15, "{one:?}");
    let two = run(&campaign).await;
    assert_eq!((one.faults, one.endings), (two.faults, two.endings));
}
