package surface

import "strings"

// Modes are what perceive can be asked for.
var Modes = []string{"evidence", "document", "scene", "objects", "regions", "change", "measurement"}

// Metrics are what measure can give.
var Metrics = []string{"count", "area", "fraction", "percentage", "distance", "overlap", "boolean"}

// Products are the standard products of execute.
var Products = []string{"single_channel_lst", "multi_channel_lst", "split_window_lst", "ttm_lst", "tes",
	"normalized_difference", "pwv_band_ratio", "tvdi", "day_night_temperature", "apparent_thermal_inertia"}

var declarations = []Declaration{
	{Perceive, "What is visible in images, with evidence. Modes: evidence (facts of a picture or figure), document (text as it stands), scene (one class of label_space per image), " +
		"objects (boxes of instances), regions (masks of surfaces), change (an ordered pair, before and after), measurement (two landmarks and a scale bar). " +
		"Layers of objects, regions and change are saved; compute geometry from layer_paths with measure or execute, not from the summary.", perceiveSchema},
	{Measure, "One number over declared sources: count, area, fraction, percentage, distance, overlap or a yes-or-no relation. A source is perceived here (image_paths and target_groups), " +
		"read from a layer_path, or an extent in pixels. Relation, distance, denominator and unit go into spec; metres need the source's gsd. Boxes guessed by a language model are refused.", measureSchema},
	{Execute, "Runs a DAG of typed operators, in order: asset.catalog, raster.product, raster.batch_reduce, raster.summarize, temporal.aggregate, temporal.trend, spatial.query, decision.select, " +
		"or any tool of the kit by its name. Connect nodes with inputs.data = \"@node\"; \"@node.field\" takes one field of an object. The last node's output is the observation.", executeSchema},
	{Retrieve, "Cards of trusted remote-sensing knowledge: which tool to use (routing), how to do a standard analysis (recipe), what a sensor, flag or quantity means (knowledge). Text for orientation, not a result.", retrieveSchema},
}

func enum(list []string) string { return `"` + strings.Join(list, `","`) + `"` }

// groupsSchema are the targets of a perception: an id and what to look for.
const groupsSchema = `{"type":"object","minProperties":1,"maxProperties":16,"additionalProperties":{"type":"array","minItems":1,"maxItems":8,"items":{"type":"string","minLength":1}},` +
	`"description":"target id: one or more names of what to look for, counted as one class"}`

const gsdSchema = `{"anyOf":[{"type":"number","exclusiveMinimum":0},{"type":"array","minItems":1,"items":{"type":"number","exclusiveMinimum":0}}],"description":"metres per pixel, of all images or one for each"}`

var perceiveSchema = `{"type":"object","additionalProperties":false,"required":["image_paths","mode"],"properties":{` +
	`"image_paths":{"type":"array","minItems":1,"maxItems":64,"items":{"type":"string","minLength":1},"description":"images in their order; two for change"},` +
	`"objective":{"type":"string","description":"the visual fact or layer that is needed"},` +
	`"mode":{"enum":[` + enum(Modes) + `]},` +
	`"label_space":{"type":"array","minItems":2,"items":{"type":"string","minLength":1},"description":"scene: the classes to choose from, never answer letters"},` +
	`"target_groups":` + groupsSchema + `,` +
	`"landmarks":{"type":"array","minItems":2,"maxItems":2,"items":{"type":"string","minLength":1},"description":"measurement: the two points"},` +
	`"view":{"enum":["overview","tiles"],"description":"objects: tiles looks at parts of large images one by one"},` +
	`"gsd":` + gsdSchema + `,` +
	`"backend":{"enum":["auto","local","vlm"],"description":"local gives exact geometry, vlm approximate geometry"},` +
	`"quality_policy":{"enum":["default","strict"],"description":"strict: insufficient if a target group is not found"}},` +
	`"allOf":[{"if":{"properties":{"mode":{"const":"scene"}}},"then":{"required":["label_space"]}},` +
	`{"if":{"properties":{"mode":{"enum":["objects","regions"]}}},"then":{"required":["target_groups"]}},` +
	`{"if":{"properties":{"mode":{"const":"measurement"}}},"then":{"required":["landmarks"]}},` +
	`{"if":{"properties":{"mode":{"const":"change"}}},"then":{"properties":{"image_paths":{"minItems":2,"maxItems":2}}}}]}`

var sourceSchema = `{"type":"object","additionalProperties":false,"required":["mode"],"properties":{` +
	`"mode":{"enum":["objects","regions","change","extent"]},` +
	`"image_paths":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","minLength":1}},` +
	`"target_groups":` + groupsSchema + `,` +
	`"layer_path":{"type":"string","minLength":1,"description":"a layer that perceive saved, instead of image_paths"},` +
	`"extent":{"type":"array","minItems":4,"maxItems":4,"items":{"type":"number"},"description":"extent: x1, y1, x2, y2 in pixels"},` +
	`"label":{"type":"string","minLength":1,"description":"extent: the id that spec uses for it"},` +
	`"view":{"enum":["overview","tiles"]},` +
	`"gsd":{"type":"number","exclusiveMinimum":0,"description":"metres per pixel; needed for metres"},` +
	`"backend":{"enum":["auto","local","vlm"]}}}`

// specProperties are the members of a measurement's spec, which spatial.query takes too.
var specProperties = `"metric":{"enum":[` + enum(Metrics) + `]},` +
	`"subject":{"type":"string","minLength":1,"description":"target id; may be left out if there is one"},` +
	`"reference":{"type":"string","minLength":1,"description":"target id that subjects are related to"},` +
	`"relation":{"enum":["none","within","intersects","disjoint","within_distance","beyond_distance"],"description":"keeps the subjects that stand so to the reference"},` +
	`"distance":{"type":"number","minimum":0},` +
	`"distance_unit":{"enum":["px","m"]},` +
	`"distance_statistic":{"enum":["minimum","mean","maximum"],"description":"over the distance of each subject to the nearest reference"},` +
	`"denominator":{"enum":["image","reference","subject"],"description":"of fraction and percentage: area of the image or of the reference, or number of all subjects"},` +
	`"unit":{"type":"string"}`

var measureSchema = `{"type":"object","additionalProperties":false,"required":["sources","spec"],"properties":{` +
	`"sources":{"type":"array","minItems":1,"maxItems":8,"items":` + sourceSchema + `},` +
	`"spec":{"type":"object","additionalProperties":false,"required":["metric"],"properties":{` + specProperties + `}}}}`

const executeSchema = `{"type":"object","additionalProperties":false,"required":["nodes"],"properties":{` +
	`"nodes":{"type":"array","minItems":1,"maxItems":64,"items":{"type":"object","additionalProperties":false,"required":["id","op"],"properties":{` +
	`"id":{"type":"string","pattern":"^[A-Za-z][A-Za-z0-9_]{0,63}$"},` +
	`"op":{"type":"string","minLength":1,"description":"an operator, or the name of a tool of the kit"},` +
	`"inputs":{"type":"object","description":"data: \"@node\" or \"@node.field\" of an earlier node, or a value"},` +
	`"params":{"type":"object"}}}},` +
	`"fields":{"type":"array","items":{"type":"string","minLength":1},"description":"fields of the last output that are needed"}}}`

const retrieveSchema = `{"type":"object","additionalProperties":false,"required":["query"],"properties":{` +
	`"query":{"type":"string","minLength":1},` +
	`"kind":{"enum":["routing","recipe","knowledge"]},` +
	`"top_k":{"type":"integer","minimum":1,"maximum":5}}}`
