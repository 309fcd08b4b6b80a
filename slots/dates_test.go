package slots

import (
	"strings"
	"testing"
	"time"
)

func TestFindDates(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		// File names.
		{"Nairobi_avg_rad_2014-02-01.tif", "2014-02-01 %Y-%m-%d"},
		{"2022_01_08_1035_BT_31.tif", "2022-01-08 %Y_%m_%d"},
		{"2022_01_08_2035_BT_31.tif", "2022-01-08 %Y_%m_%d"}, // 20:35 is no year
		{"lst_2018_06_04_0000.tif", "2018-06-04 %Y_%m_%d"},
		{"Place_20180101_0320_Emis31.tif", "2018-01-01 %Y%m%d"},
		{"Place_20180101_0320_20190203.tif", "2018-01-01 %Y%m%d, 2019-02-03 %Y%m%d"},
		{"20180101", "2018-01-01 %Y%m%d"},
		{"Taklamakan.tif_2020-02-23_0550_Emis32.tif", "2020-02-23 %Y-%m-%d"},
		{"x_2020-02-23T1550.tif", "2020-02-23 %Y-%m-%d"},
		{"2020/02/23/b4.tif", "2020-02-23 %Y/%m/%d"},
		{"Place_2019_avg_rad_2019-01-01.tif", "2019 %Y, 2019-01-01 %Y-%m-%d"},
		{"built_volume_total_2015.tif", "2015 %Y"},
		{"d/2021-01-01_to_2021-12-31", "2021-01-01 %Y-%m-%d, 2021-12-31 %Y-%m-%d"},
		// Clock times, tile numbers and other digits.
		{"at 2035 hours", "2035 %Y"}, // nothing says that it is a time
		{"2020-02-23_2535.tif", "2020-02-23 %Y-%m-%d"},
		{"2020-02-23_20211.tif", "2020-02-23 %Y-%m-%d"},
		{"P5127.png 4096 1024", ""},
		{"question2015x", "2015 %Y"},
		{"120150", ""},
		{"2022.5 and 0.2022 and 3.2020", ""},
		{"in 2022.", "2022 %Y"},
		{"1974 1975 2035 2036", "1975 %Y, 2035 %Y"},
		{"99999999", ""},
		{"20181301 20180230", ""},
		{"2018-13-01", "2018 %Y"},
		{"2018-01-011", "2018 %Y"},
		{"2018-01_01", "2018 %Y"},
		{"2023-02-29 2024-02-29", "2023 %Y, 2024-02-29 %Y-%m-%d"},
		// Words.
		{"On July 12, 2022, compute", "2022-07-12 %B %-d, %Y"},
		{"on July 05, 2022", "2022-07-05 %B %d, %Y"},
		{"on July 5 2022", "2022-07-05 %B %-d %Y"},
		{"on july 5, 2022", "2022 %Y"}, // no layout writes these again
		{"on Sept 5, 2022", "2022 %Y"},
		{"5 JULY 2022", "2022 %Y"},
		{"on Jul 5, 2022", "2022-07-05 %b %-d, %Y"},
		{"12 July 2022", "2022-07-12 %-d %B %Y"},
		{"03 Sep 2020", "2020-09-03 %d %b %Y"},
		{"May 4, 2020 and 4 May 2020", "2020-05-04 %B %-d, %Y, 2020-05-04 %-d %B %Y"},
		{"from May 1 to June 3, 2020", "2020-06-03 %B %-d, %Y"},
		{"July 2022", "2022 %Y"},
		{"first half of 2013", "2013 %Y"},
		{"May to October 2021", "2021 %Y"},
		{"May 40, 2020", "2020 %Y"},
		{"February 29, 2023", "2023 %Y"},
		{"Zuly 5, 2022", "2022 %Y"},
		{"2013–2018", "2013 %Y, 2018 %Y"},
		{"July 12, 20222", ""},
		{"JRC/GHSL/P2023A/GHS_BUILT_V 2020", "2020 %Y"}, // a release
		{"A2015B aA2015B", "2015 %Y"},
		{"12 July 2022 12, 2021", "2022-07-12 %-d %B %Y, 2021 %Y"},
		{"", ""}, {"May", ""}, {"5", ""},
	} {
		var got []string
		end := 0
		for _, m := range FindDates(test.text) {
			if m.Start < end || m.End > len(test.text) || m.Start >= m.End {
				t.Errorf("%q: span %d to %d", test.text, m.Start, m.End)
			}
			end = m.End
			day := m.Date.Format(time.DateOnly)
			if !m.Full() {
				day = m.Date.Format("2006")
			}
			got = append(got, day+" "+m.Layout)
			back, err := FormatDate(m.Date, m.Layout)
			if err != nil || back != test.text[m.Start:m.End] {
				t.Errorf("%q: %q is written back as %q, %v", test.text, test.text[m.Start:m.End], back, err)
			}
		}
		if got := strings.Join(got, ", "); got != test.want {
			t.Errorf("%q: %s, want %s", test.text, got, test.want)
		}
	}
}

func TestFormatDate(t *testing.T) {
	day := time.Date(2009, 3, 5, 0, 0, 0, 0, time.UTC)
	for layout, want := range map[string]string{
		"%Y-%m-%d": "2009-03-05", "%Y_%m_%d": "2009_03_05", "%Y%m%d": "20090305", "%B %-d, %Y": "March 5, 2009", "%d %b": "05 Mar", "": "", "x": "x", "{%Y}": "{2009}",
	} {
		if got, err := FormatDate(day, layout); err != nil || got != want {
			t.Errorf("%q gives %q, %v; want %q", layout, got, err, want)
		}
	}
	for _, layout := range []string{"%", "%H", "%-m", "100%", "%%"} {
		_, err := FormatDate(day, layout)
		wantError(t, layout, err, "is not one of")
	}
}

func FuzzFindDates(f *testing.F) {
	for _, s := range []string{"Place_20180101_0320_Emis31.tif", "July 12, 2022 and 12 July 2022", "2020-02-30", "2022_01_08_2035_BT", "1 May 2020 2 May 2021"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		end := 0
		for _, m := range FindDates(s) {
			if m.Start < end || m.End > len(s) || m.Start >= m.End {
				t.Fatalf("%q: span %d to %d after %d", s, m.Start, m.End, end)
			}
			end = m.End
			if y := m.Date.Year(); y < firstYear || y > lastYear {
				t.Fatalf("%q: year %d", s, y)
			}
			if strings.Contains(m.Layout, "{") {
				t.Fatalf("%q: layout %q", s, m.Layout)
			}
			if back, err := FormatDate(m.Date, m.Layout); err != nil || back != s[m.Start:m.End] {
				t.Fatalf("%q: %q is written back as %q, %v", s, s[m.Start:m.End], back, err)
			}
		}
	})
}
