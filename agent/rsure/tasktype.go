package rsure

import (
	"context"
	"regexp"
	"strings"

	"terraloom/agent/llm"
)

// TaskTypes are the 21 multiple-choice task types of CHOICE, in the order of
// RSure-Agent Table E.1: the set Z of the reliability prior.
var TaskTypes = []string{
	"Attribute Comparison", "Change Detection", "Spatial Relationship", "Image Caption", "Image Modality", "Image Quality", "Map Recognition",
	"Scene Classification", "Attribute Recognition", "Hallucination Detection", "Landmark Recognition", "Object Counting", "Object Localization",
	"Object Presence", "Environmental Assessment", "Resource Assessment", "Physical Property", "Time Property", "Disaster Discrimination",
	"Geospatial Determination", "Situation Inference",
}

// taskWords are the keyword rules: the first that matches decides. The paper does
// not print its rules; these are ours.
var taskWords = []struct {
	task  string
	words *regexp.Regexp
}{
	{"Object Counting", regexp.MustCompile(`\bhow many\b|\bnumber of (?:objects|aircraft|airplanes|planes|ships|boats|vehicles|cars|trucks|buildings|houses|courts|tanks|bridges|harbou?rs|fields)\b|\bcount (?:the|all)\b`)},
	{"Disaster Discrimination", regexp.MustCompile(`\b(?:disaster|flood(?:ed|ing)?|earthquake|landslide|wildfire|burn(?:ed|t)? (?:area|severity|ratio)|fire|hurricane|damage[ds]?)\b`)},
	{"Change Detection", regexp.MustCompile(`\b(?:changes? (?:between|from|detected|in the (?:buildings|images?|scene))|before and after|bi-?temporal|newly built|demolished)\b`)},
	{"Physical Property", regexp.MustCompile(`\b(?:what|how large|calculate|compute|estimate)\b.*\b(?:area|distance|length|width|height)\b|\bhow (?:far|long|wide|tall|large|big)\b`)},
	{"Environmental Assessment", regexp.MustCompile(`\b(?:temperature|lst|ndvi|ndwi|ndbi|ndsi|evi|tvdi|vegetation|drought|dryness|rainfall|precipitation|snow|sea ice|turbidity|heat island|night-?(?:time )?lights?|water vapou?r|air quality|emissivity|pollution|cloud)\b`)},
	{"Resource Assessment", regexp.MustCompile(`\b(?:resource|crop(?:land)?s?|yield|soil moisture|forest cover|water (?:resource|volume)|mineral|reservoir|farmland)\b`)},
	{"Scene Classification", regexp.MustCompile(`\b(?:scene|classify|classification|categor(?:y|ize)|land use (?:type|class)|which (?:class|type of (?:scene|land)))\b`)},
	{"Image Modality", regexp.MustCompile(`\b(?:modality|sar image|optical or|infrared image|which sensor|type of (?:sensor|imagery))\b`)},
	{"Image Quality", regexp.MustCompile(`\b(?:image quality|blurr?(?:y|ed)?|noise|haze|resolution of the image)\b`)},
	{"Map Recognition", regexp.MustCompile(`\b(?:map|legend|contour line)\b`)},
	{"Image Caption", regexp.MustCompile(`\b(?:caption|describe|description)\b`)},
	{"Landmark Recognition", regexp.MustCompile(`\b(?:landmark|name of (?:the|this) (?:airport|stadium|bridge|building|monument))\b`)},
	{"Spatial Relationship", regexp.MustCompile(`\b(?:relative to|adjacent|next to|between the|nearest|closest|farthest|left of|right of|north of|south of|east of|west of|overlap|inside the)\b`)},
	{"Object Localization", regexp.MustCompile(`\b(?:where (?:is|are)|locate|location of|position of|bounding box|coordinates of)\b`)},
	{"Hallucination Detection", regexp.MustCompile(`\b(?:not (?:present|visible|exist)|does not appear|which of the following is (?:not|absent))\b`)},
	{"Object Presence", regexp.MustCompile(`\b(?:is there|are there|does the image (?:contain|show)|present in the image|exist in)\b`)},
	{"Attribute Comparison", regexp.MustCompile(`\b(?:compare|larger than|smaller than|longer than|which (?:one )?is (?:larger|smaller|longer|taller|brighter))\b`)},
	{"Attribute Recognition", regexp.MustCompile(`\b(?:colou?r|shape|orientation|heading|material|texture)\b`)},
	{"Time Property", regexp.MustCompile(`\b(?:season|time of (?:day|year)|when was|which (?:year|month))\b`)},
	{"Geospatial Determination", regexp.MustCompile(`\b(?:which (?:country|city|continent|region)|geographic(?:al)? location|latitude|longitude)\b`)},
	{"Situation Inference", regexp.MustCompile(`\b(?:infer|likely|why|purpose|activity|what is happening)\b`)},
}

// ByWords is the task type by the keyword rules, "" where none matches.
func ByWords(question string) string {
	q := strings.ToLower(question)
	for _, t := range taskWords {
		if t.words.MatchString(q) {
			return t.task
		}
	}
	return ""
}

// TypePrompt asks for the type of a question that no rule knows.
var TypePrompt = "You sort remote-sensing questions. Reply with exactly one of these types and nothing else: " + strings.Join(TaskTypes, "; ") + "."

// Unknown is the type of a question that neither rules nor model place. It is in
// no prior, so that such questions have none.
const Unknown = "Unknown"

// Classify gives the task type z of a question: by the rules, else by the model.
// Calibration and online verification both call it.
func Classify(ctx context.Context, m llm.Model, model, question string) (string, error) {
	if t := ByWords(question); t != "" {
		return t, nil
	}
	if m == nil {
		return Unknown, nil
	}
	reply, err := m.Chat(ctx, llm.Request{Role: "classifier", Model: model,
		Messages: []llm.Message{{Role: "system", Content: TypePrompt}, {Role: "user", Content: question}}})
	if err != nil {
		return "", err
	}
	for _, t := range TaskTypes {
		if strings.EqualFold(strings.Trim(reply.Text, " \t\r\n.\"'"), t) {
			return t, nil
		}
	}
	return Unknown, nil
}
