package tools

import (
	"fmt"

	"terraloom/data/strictjson"
)

// pickItems is the list of items at the indexes; -1 is the last, as in Python.
func pickItems(c *Call) (Result, error) {
	list := c.Args.Get("input_list")
	picked, err := pick(list.Len(), list.Index, c.Args.Get("indexes"))
	if err != nil {
		return Result{}, err
	}
	return Result{Value: picked, Evidence: Evidence{Used: picked.Len()}}, nil
}

// pick selects among n items by Python indexes.
func pick(n int, item func(int) strictjson.Value, indexes strictjson.Value) (strictjson.Value, error) {
	out := make([]strictjson.Value, indexes.Len())
	for k := range out {
		f, _ := indexes.Index(k).Float()
		if f < float64(-n) || f >= float64(n) {
			return strictjson.Value{}, badArgument(fmt.Sprintf("indexes/%d", k), "%s is outside a list of %d items; use 0 to %d",
				indexes.Index(k).Text(), n, n-1)
		}
		i := int(f)
		if i < 0 {
			i += n
		}
		out[k] = item(i)
	}
	return strictjson.List(out...), nil
}

// indexToDateRange is {from, to}: the dates between which change start_index of
// a series lies, since a series of n dates has n-1 changes.
func indexToDateRange(c *Call) (Result, error) {
	dates := c.Args.Get("dates")
	i, err := c.int("start_index")
	if err != nil {
		return Result{}, err
	}
	if i+1 >= dates.Len() {
		return Result{}, badArgument("start_index", "%d dates have steps 0 to %d, got %d", dates.Len(), dates.Len()-2, i)
	}
	return Result{
		Value: strictjson.Obj(
			strictjson.Member{Key: "from", Value: dates.Index(i)},
			strictjson.Member{Key: "to", Value: dates.Index(i + 1)},
		),
		Evidence: Evidence{Used: dates.Len()},
	}, nil
}
