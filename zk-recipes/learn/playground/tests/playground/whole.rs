//! The page in one file has every scene, and refers to nothing outside of it.

use zk_playground::{catalogue, page};

#[test]
fn one_file_has_every_scene_and_refers_to_nothing() {
    let whole = page::whole().unwrap();
    let (_, data) = whole.split_once("<script type=\"application/json\" id=\"scenes\">").unwrap();
    let (data, after) = data.split_once("</script>").unwrap();
    let bundle = serde_json::from_str::<serde_json::Value>(data).unwrap();
    let scenes = catalogue::scenes();
    assert_eq!(bundle["scenes"].as_array().unwrap().len(), scenes.len());
    for (ready, played) in scenes.iter().zip(bundle["scenes"].as_array().unwrap()) {
        assert_eq!(played["id"], ready.id);
        assert!(!played["events"].as_array().unwrap().is_empty(), "{}", ready.id);
    }
    assert_eq!(bundle["catalogue"]["scenes"].as_array().unwrap().len(), scenes.len());
    assert!(after.contains("<script>"), "the scripts are behind the data");
    let outside = whole.replace("http://www.w3.org/2000/svg", "");
    for reference in ["http://", "https://", "src=", "stylesheet", "url(", "@import", "cdn."] {
        let found = outside.find(reference).map(|at| &outside[at.saturating_sub(60)..]);
        let found = found.map(|found| found.chars().take(120).collect::<String>());
        assert_eq!(found, None, "{reference}");
    }
}
